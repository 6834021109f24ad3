-- Removes the cursor of a period that is over. Whoever takes from it after all finds none and begins it anew, above what the store has given.
--
-- KEYS[1]  the cursor's hash
-- ARGV[1]  the format version this build writes
-- ARGV[2]  the ID of the cluster, as the store has it
--
-- Returns an array that begins with one of
--   'ok'       there is no cursor any more.
--   'newer', 'foreign'  as take.lua; nothing was changed.

local h = redis.call('HMGET', KEYS[1], 'v', 'cluster')
if h[1] and tonumber(h[1]) > tonumber(ARGV[1]) then
  return {'newer', h[1]}
end
if h[1] and h[2] ~= ARGV[2] then
  return {'foreign', h[2] or ''}
end
redis.call('DEL', KEYS[1])
return {'ok'}
