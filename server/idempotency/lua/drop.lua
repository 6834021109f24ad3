-- Removes the entry of an Idempotency-Key where it still is what the caller put there, in one atomic step.
--
-- KEYS[1]  the entry, a text
-- ARGV[1]  the text that the caller put there
--
-- Returns how many entries were removed, 0 or 1.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1])
