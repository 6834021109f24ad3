-- Changes a registry of machine IDs if everything is as the caller saw it. It is sent once and
-- never repeated. It is one atomic step, written by one HSET at the end.
--
-- KEYS[1]  the registry's hash
-- ARGV[1]  the format version that this build writes
-- ARGV[2]  the ID of the cluster in the store
-- ARGV[3]  the replication ID that the caller saw
-- ARGV[4]  the bootstrap part that the caller saw; '' if there was none
-- ARGV[5]  the new bootstrap part; '' keeps the old one
-- ARGV[6]  a machine ID; '' changes no slot
-- ARGV[7]  the slot that the caller saw; '' if it was never granted
-- ARGV[8]  the new slot
--
-- Returns an array that begins with one of
--   'ok'       the change was made.
--   'moved'    something is not as the caller saw it.
--   'replica', 'newer', 'foreign', 'damaged'  as look.lua.
-- Unless it returns 'ok', nothing was changed.

local info = redis.call('INFO', 'replication')
if not string.find(info, 'role:master', 1, true) then
  return {'replica'}
end
local h = redis.call('HMGET', KEYS[1], 'v', 'cluster', 'set', ARGV[6])
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

-- An empty field is never what a caller saw.
local function changed(stored, seen)
  if seen == '' then
    return stored ~= false
  end
  return stored ~= seen
end

if string.match(info, 'master_replid:(%x+)') ~= ARGV[3] or changed(h[3], ARGV[4]) then
  return {'moved'}
end
if ARGV[6] ~= '' and changed(h[4], ARGV[7]) then
  return {'moved'}
end

local write = {'HSET', KEYS[1], 'v', ARGV[1], 'cluster', ARGV[2]}
if ARGV[5] ~= '' then
  write[#write + 1] = 'set'
  write[#write + 1] = ARGV[5]
end
if ARGV[6] ~= '' then
  write[#write + 1] = ARGV[6]
  write[#write + 1] = ARGV[8]
end
redis.call(unpack(write))
return {'ok'}
