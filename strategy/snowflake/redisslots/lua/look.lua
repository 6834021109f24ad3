-- Reads a registry of machine IDs. It writes nothing.
--
-- KEYS[1]   the registry's hash
-- ARGV[1]   the format version that this build writes
-- ARGV[2]   the ID of the cluster in the store
-- ARGV[3…]  the machine IDs to read; none means all
--
-- Returns an array that begins with one of
--   'ok'       followed by replid, now, state, set, and the machine ID and the slot of every slot
--              found, in no order. replid is the server's replication ID. now is its time in ms.
--              state is '2 ' and the number of replicas if it has any; else '1' if it was a replica
--              itself or is configured to require replicas; else '0'. set is the bootstrap part,
--              nil if there is none.
--   'replica'  this server is not a primary.
--   'newer'    followed by the format version of the hash, which this build does not know.
--   'foreign'  followed by the ID of the cluster that the hash belongs to.
--   'damaged'  the hash has no format version, or one that cannot be read.
-- All numbers are decimal strings.
--
-- The fields of the hash: v is the format version, cluster the cluster's ID, set the bootstrap
-- part, and each slot has a field named by its machine ID. Only Go reads the bootstrap part and the
-- slots.

local info = redis.call('INFO', 'replication')
if not string.find(info, 'role:master', 1, true) then
  return {'replica'}
end
local h = redis.call('HMGET', KEYS[1], 'v', 'cluster', 'set')
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

local state = '0'
if not string.find(info, 'connected_slaves:0', 1, true) then
  state = '2 ' .. (string.match(info, 'connected_slaves:(%d+)') or '')
elseif string.find(info, 'min_slaves_good_slaves', 1, true) or string.find(info, 'master_replid2:0*[1-9a-f]') then
  state = '1'
end
local now = redis.call('TIME')
local ms = string.format('%.0f', tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000))
local answer = {'ok', string.match(info, 'master_replid:(%x+)'), ms, state, h[3]}

if #ARGV == 2 then
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    if all[i] ~= 'v' and all[i] ~= 'cluster' and all[i] ~= 'set' then
      answer[#answer + 1] = all[i]
      answer[#answer + 1] = all[i + 1]
    end
  end
  return answer
end
for i = 3, #ARGV do
  local slot = redis.call('HGET', KEYS[1], ARGV[i])
  if slot then
    answer[#answer + 1] = ARGV[i]
    answer[#answer + 1] = slot
  end
end
return answer
