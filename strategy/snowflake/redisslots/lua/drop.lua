-- Removes the bootstrap part of a registry of machine IDs and keeps its slots.
--
-- KEYS[1]  the registry's hash
-- ARGV[1]  the format version that this build writes
-- ARGV[2]  the ID of the cluster in the store
--
-- Returns an array that begins with one of
--   'ok'    it was removed.
--   'none'  there was none.
--   'replica', 'newer', 'foreign', 'damaged'  as look.lua.
-- Unless it returns 'ok', nothing was changed.

local info = redis.call('INFO', 'replication')
if not string.find(info, 'role:master', 1, true) then
  return {'replica'}
end
local h = redis.call('HMGET', KEYS[1], 'v', 'cluster')
if not h[1] and redis.call('EXISTS', KEYS[1]) == 1 then
  return {'damaged'}
end
if h[1] and h[1] ~= ARGV[1] then
  local version = tonumber(h[1])
  if version and version > tonumber(ARGV[1]) then
    return {'newer', h[1]}
  end
  return {'damaged'}
end
if h[1] and h[2] ~= ARGV[2] then
  return {'foreign', h[2] or ''}
end
if redis.call('HDEL', KEYS[1], 'set') == 0 then
  return {'none'}
end
return {'ok'}
