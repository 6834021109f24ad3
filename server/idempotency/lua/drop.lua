-- Removes the record of an Idempotency-Key if it still is the text that the caller wrote, in one
-- atomic step.
--
-- KEYS[1]  the record, a string
-- ARGV[1]  the text that the caller wrote
--
-- Returns how many records were removed, 0 or 1.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1])
