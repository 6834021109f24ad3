-- Looks whether cursors can be kept here, and writes nothing.
--
-- KEYS[1]  the hash of a cursor
-- ARGV[1]  the format version this build writes
-- ARGV[2]  the ID of the cluster, as the store has it; empty where it is not known: then no hash is foreign
-- ARGV[3]  not used; every script gets a text that was drawn at random
-- ARGV[4]  the channel that changes are published on
--
-- Returns an array that begins with one of
--   'fit'      known, denied: known is 1 where the server can say what its user may do (Redis 7), else 0; denied are the commands that the
--              user may not use, separated by spaces.
--   'replica'  this server is no primary.
--   'newer'    the format version of the hash, which this build does not know.
--   'foreign'  the ID of the cluster that the hash belongs to.

local info = redis.call('INFO', 'replication')
local h = redis.call('HMGET', KEYS[1], 'v', 'cluster')
redis.call('TIME')
if not string.find(info, 'role:master', 1, true) then
  return {'replica'}
end
if h[1] and h[1] ~= ARGV[1] and tonumber(h[1]) > tonumber(ARGV[1]) then
  return {'newer', h[1]}
end
if h[2] and ARGV[2] ~= '' and h[2] ~= ARGV[2] then
  return {'foreign', h[2]}
end
if not redis.acl_check_cmd then
  return {'fit', '0', ''}
end
local denied = {}
local commands = {
  {'hset', KEYS[1], 'v', '1'}, {'del', KEYS[1]}, {'get', KEYS[1]}, {'set', KEYS[1], ''}, {'publish', ARGV[4], ''}, {'subscribe', ARGV[4]}
}
for _, command in ipairs(commands) do
  if not redis.acl_check_cmd(unpack(command)) then
    denied[#denied + 1] = command[1]
  end
end
return {'fit', '1', table.concat(denied, ' ')}
