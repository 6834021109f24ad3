-- Puts a range that was allocated from the store into a cursor. It is sent once and never repeated: whoever does not learn what came of it
-- forgets the range. One atomic step, written by one HSET at the end.
--
-- KEYS[1]  the cursor's hash
-- ARGV[1]  the format version this build writes
-- ARGV[2]  the ID of the cluster, as the store has it
-- ARGV[3]  text the caller drew at random, for a new gen
-- ARGV[4]  the gen that the caller saw
-- ARGV[5]  first number of the range
-- ARGV[6]  last number of the range
-- ARGV[7]  'append' puts the range at the end of the queue; 'advance' begins the live cursor anew; 'seed' begins a cursor of another epoch,
--          over a stub or over a cursor that does not count any more
-- ARGV[8]  reserveSegments: how many ranges may wait behind buffer 2
-- ARGV[9]  the sequencer epoch that the range was allocated for. That of a seed was written to the store with the same allocation, so it is
--          installed once, in one place.
-- ARGV[10] the epoch that the one of a seed replaced in the store; empty for none
--
-- Returns an array that begins with one of
--   'ok'       gen, free: the range is in the cursor; free is how many more ranges the queue has room for.
--   'moved'    the cursor is not the one the caller saw: gone, begun anew, of another epoch, or the server's replication ID changed.
--   'stale'    ceil: the range does not begin above everything that was installed before.
--   'full'     the queue has no room.
--   'replica', 'newer', 'foreign'  as take.lua.
-- Every answer but 'ok' changed nothing.
--
-- A comment 'without NAME: CODE' takes a rule out in a build for tests (internal/sabotage).

local info = redis.call('INFO', 'replication')
if not string.find(info, 'role:master', 1, true) --[[without role: and false]] then
  return {'replica'}
end
local replid = string.match(info, 'master_replid:(%x+)')
local h = redis.call('HMGET', KEYS[1], 'v', 'cluster', 'replid', 'gen', 'ceil', 'epoch', 'queue', 'queued', 'claim', 'replaced')
if h[1] and tonumber(h[1]) > tonumber(ARGV[1]) then
  return {'newer', h[1]}
end
if h[1] and h[2] ~= ARGV[2] then
  return {'foreign', h[2] or ''}
end

if not h[1] or h[3] ~= replid --[[without fence: and false]]
  or h[4] ~= ARGV[4] --[[without gen: and false]] --[[without seed-gen: and ARGV[7] ~= 'seed']] then
  return {'moved'}
end
local mode, same = ARGV[7], h[1] == ARGV[1] and h[6] == ARGV[9]
if (mode == 'seed' and same or mode ~= 'seed' and not same) --[[without install-epoch: and false]] then
  return {'moved'}
end
if tonumber(ARGV[5]) <= tonumber(h[5]) --[[without ceil: and false]] then
  return {'stale', h[5]}
end

local room = 1 + tonumber(ARGV[8])
if mode == 'append' then
  local queued = tonumber(h[8])
  if queued >= room then
    return {'full'}
  end
  -- The claim of whoever fills the queue ends when it is full.
  local claim = queued + 1 < room and h[9] or '0'
  redis.call('HSET', KEYS[1], 'ceil', ARGV[6], 'queue', h[7] .. ARGV[5] .. '-' .. ARGV[6] .. ' ', 'queued', string.format('%.0f', queued + 1), 'claim', claim)
  return {'ok', h[4], string.format('%.0f', room - queued - 1)}
end
-- The caller's random text makes the new gen unlike any before, the time makes it so even for a script that runs twice.
local now = redis.call('TIME')
local gen = ARGV[3] .. '.' .. now[1] .. '.' .. now[2]
redis.call('HSET', KEYS[1], 'v', ARGV[1], 'gen', gen, 'ceil', ARGV[6], 'epoch', ARGV[9], 'replaced', mode == 'seed' and (ARGV[10] or '') or h[10] or '', 'first', ARGV[5], 'cur', string.format('%.0f', tonumber(ARGV[5]) - 1),
  'last', ARGV[6], 'queue', '', 'queued', '0', 'claim', '0')
return {'ok', gen, string.format('%.0f', room)}
