-- Keeps another text in place of the one that the caller put there, in one atomic step. Where nothing is kept any more it keeps the text as well: nobody
-- else has put one there since, or it is gone again.
--
-- KEYS[1]  the entry of an Idempotency-Key, a text
-- ARGV[1]  the text that the caller put there
-- ARGV[2]  the text to keep
-- ARGV[3]  for how long, in ms, above 0
--
-- Returns '' when the text is kept now, else the text that is kept, which is somebody else's or the one to keep already.

local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] --[[without claim: and false]] then
  return held
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return ''
