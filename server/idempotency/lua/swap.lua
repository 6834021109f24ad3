-- Replaces the text that the caller wrote by another one, in one atomic step.
--
-- KEYS[1]  the record of an Idempotency-Key, a string
-- ARGV[1]  the text that the caller wrote
-- ARGV[2]  the new text
-- ARGV[3]  how long to keep it, in ms, above 0
--
-- Returns '' if the new text was written, else the text that is kept: somebody else's, or the new
-- one itself; false if nothing is.
--
-- A comment 'without NAME: CODE' takes a rule out in a build for tests (internal/sabotage).

local held = redis.call('GET', KEYS[1])
if held ~= ARGV[1] --[[without claim: and false]] then
  return held
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return ''
