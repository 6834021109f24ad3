-- Takes numbers out of cursors, or looks at them (count 0). One atomic step. For each cursor, everything is computed first and written by one
-- HSET at the end, because an error does not undo what a script has written.
--
-- KEYS     the cursors' hashes
-- ARGV[1]  the format version this build writes
-- ARGV[2]  the ID of the cluster, as the store has it
-- ARGV[3]  text the caller drew at random, for a new gen
-- ARGV[4]  threshold: the share of buffer 1 whose use asks for a refill, above 0 and at most 1
-- ARGV[5]  reserveSegments: how many ranges may wait behind buffer 2
-- ARGV[6]  1 when the ranges behind buffer 2 may be used, else 0
-- ARGV[7]  for how many ms a refill that is asked for is left to this caller; 0 claims nothing
-- then two for each key:
--   how many numbers are wanted, 0 or more; 0 only looks
--   the sequencer epoch that the store believes in, as far as the caller knows; empty for none
--
-- Returns an array with an answer for each key. The usual one is short: the text 'took CEIL LAST', if LAST is the last of all the numbers wanted,
-- which follow each other, and the cursor wants no range. Any other is an array that begins with one of
--   'live'     gen, ceil, low, free, next, hand, then first and last of every run that was taken, ascending. low is 0 (no refill needed), 1 (it is,
--              but it is claimed already, or this caller claims none) or 2 (it is, and this caller has claimed it); free is how many ranges
--              the queue has room for; next is the number that the next take would begin with, 0 when there is none; hand is how many numbers
--              there are; a take that got all it wanted leaves these two 0.
--   'stub'     gen, ceil, low: the cursor holds no ranges and waits for a seed; low is 1 or 2 as above.
--   'other'    gen, ceil, epoch, replaced: the cursor is live under this epoch, which is not the caller's, and which replaced another one in the
--              store. Nothing was taken. The caller asks the store which of the two counts: either it takes again under this epoch, or it
--              seeds over the cursor.
--   'replica'  this server is no primary.
--   'newer'    the format version of the hash, which this build does not know.
--   'foreign'  the ID of the cluster that the hash belongs to.
--   'error'    what Redis or Lua said. Nothing was taken. With one key, the script itself fails with that error.
-- All numbers are decimal texts: a Lua number would lose its fraction or be written as 1e+14.
--
-- The fields of the hash: v format version, cluster, replid the replication ID under which the hash was written, gen drawn anew whenever
-- the cursor is begun anew, ceil the highest last number ever installed, epoch the sequencer epoch it is live under (empty in a stub),
-- replaced the epoch that the store held before that one, first, cur and last of buffer 1 (cur is the last number taken), queue the ranges
-- behind it as 'first-last ' each, queued how many they are, claim until when (ms) a refill is claimed. A hash of format 1 has no epoch: it
-- counts as a stub, and keeps its ceil.
--
-- A comment 'without NAME: CODE' takes a rule out in a build for tests (internal/sabotage).

local info = redis.call('INFO', 'replication')
local primary = string.find(info, 'role:master', 1, true) --[[without role: or true]]
local threshold, room = tonumber(ARGV[4]), 1 + ARGV[5]
local answers, rest = {}, nil

-- Most takes find all they want in buffer 1, and no refill is needed. This loop is for them: it reads and writes little, and makes no functions.
-- An error of one cursor must not end the takes from the others. So nothing here can fail; whatever is unusual is left to take below, which
-- meets the same error, under pcall if there are several keys.
for i = 1, #KEYS do
  local wanted, epoch = tonumber(ARGV[6 + 2 * i]), ARGV[7 + 2 * i]
  local f = redis.pcall('HMGET', KEYS[i], 'v', 'cluster', 'replid', 'epoch', 'first', 'cur', 'last', 'queued', 'ceil')
  if f[1] == ARGV[1] and f[2] == ARGV[2] and (f[4] == epoch and epoch ~= '' --[[without take-epoch: or true]]) and primary
    -- Whether the hash was written under the present replication ID. A plain find: a pattern that takes the ID out costs as much as all the rest.
    and (string.find(info, 'master_replid:' .. (f[3] or '?') .. '\r', 1, true) --[[without fence: or true]]) then
    local first, cur, last, queued = tonumber(f[5]), tonumber(f[6]), tonumber(f[7]), tonumber(f[8])
    local taken = wanted > 0 and first and cur and last and queued and f[9] and cur + wanted
    if taken and taken <= last and (room - queued <= 0 or taken - first + 1 < threshold * (last - first + 1)) then
      local now = string.format('%.0f', taken)
      if type(redis.pcall('HSET', KEYS[i], 'cur', now)) ~= 'table' then -- no error
        answers[i] = 'took ' .. f[9] .. ' ' .. now
      end
    end
  end
  if not answers[i] then
    rest = rest or {}
    rest[#rest + 1] = i
  end
end
if not rest then
  return answers
end

local function text(number)
  return string.format('%.0f', number)
end

local function trusted(replid)
  return string.find(info, 'master_replid:' .. replid .. '\r', 1, true) --[[without fence: or true]]
end

-- Whether what is wanted is claimed already, or not to be claimed (1), or this caller has claimed it now (2), and until when (ms).
local function claim(held)
  local now = redis.call('TIME')
  local ms, ttl = tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000), tonumber(ARGV[7])
  -- A claim that lies further ahead than claims do was written before the clock went back.
  if ttl == 0 or tonumber(held) > ms and tonumber(held) <= ms + 60000 then
    return '1', held
  end
  return '2', text(ms + ttl)
end

local function take(key, wanted, epoch)
  if not primary then
    return {'replica'}
  end
  local h = redis.call('HMGET', key, 'v', 'cluster', 'replid', 'gen', 'ceil', 'epoch', 'first', 'cur', 'last', 'queue', 'queued', 'claim')
  if h[1] and h[1] ~= ARGV[1] and tonumber(h[1]) > tonumber(ARGV[1]) then
    return {'newer', h[1]}
  end
  if h[1] and h[2] ~= ARGV[2] then
    return {'foreign', h[2] or ''}
  end

  if not h[1] or not trusted(h[3]) then
    -- Lost, or written under another replication ID: by a server whose state may have been handed out differently since. Nothing of it is
    -- trusted but ceil, which only makes later numbers higher.
    local now = redis.call('TIME')
    local gen = ARGV[3] .. '.' .. now[1] .. '.' .. now[2]
    local replid, ceil = string.match(info, 'master_replid:(%x+)'), h[1] and h[5] or '0'
    local low, claimed = claim('0')
    redis.call('HSET', key, 'v', ARGV[1], 'cluster', ARGV[2], 'replid', replid, 'gen', gen, 'ceil', ceil, 'epoch', '',
      'first', '0', 'cur', '0', 'last', '0', 'queue', '', 'queued', '0', 'claim', claimed)
    return {'stub', gen, ceil, low}
  end
  if h[1] ~= ARGV[1] or h[6] == '' then
    local low, claimed = claim(h[12])
    if claimed ~= h[12] then
      redis.call('HSET', key, 'claim', claimed)
    end
    return {'stub', h[4], h[5], low}
  end
  if h[6] ~= epoch --[[without take-epoch: and false]] then
    return {'other', h[4], h[5], h[6], redis.call('HMGET', key, 'replaced')[1] or ''}
  end

  local first, cur, last = tonumber(h[7]), tonumber(h[8]), tonumber(h[9])
  local queue, queued, claimed = h[10], tonumber(h[11]), h[12]
  local useReserve = ARGV[6] == '1'
  local answer = {'live', h[4], h[5], '0', '0', '0', '0'}
  local curText, promoted = h[8], 0
  while wanted > 0 do
    if cur < last then
      local part = math.min(wanted, last - cur)
      answer[#answer + 1] = text(cur + 1)
      cur = cur + part
      curText = text(cur)
      answer[#answer + 1] = curText
      wanted = wanted - part
    elseif queued > 0 and (promoted == 0 or useReserve) then
      local f, l, rest = string.match(queue, '^(%d+)-(%d+) (.*)$')
      first, last, queue = tonumber(f), tonumber(l), rest
      cur = first - 1
      curText = text(cur)
      queued = queued - 1
      promoted = promoted + 1
    else
      break
    end
  end

  local free = room - queued
  if free > 0 then
    answer[5] = text(free)
    if cur - first + 1 >= threshold * (last - first + 1) then
      answer[4], claimed = claim(claimed)
    end
  end

  if #answer == 7 or wanted > 0 then
    local hand = last - cur
    if hand > 0 then
      answer[6] = text(cur + 1)
    end
    for f, l in string.gmatch(queue, '(%d+)-(%d+) ') do
      if hand == 0 then
        answer[6] = f
      end
      hand = hand + (tonumber(l) - tonumber(f) + 1) -- the difference first: hand + l may be above 2^53
    end
    answer[7] = text(hand)
  end

  if promoted > 0 then
    redis.call('HSET', key, 'cur', curText, 'claim', claimed, 'first', text(first), 'last', text(last), 'queue', queue, 'queued', text(queued))
  elseif claimed ~= h[12] then
    redis.call('HSET', key, 'cur', curText, 'claim', claimed)
  elseif curText ~= h[8] then
    redis.call('HSET', key, 'cur', curText)
  end
  return answer
end

-- The text of an error. In Redis 6 it begins with the line of the script.
local function said(err)
  local text = type(err) == 'table' and err.err or tostring(err)
  return (string.gsub(text, '^@user_script: ?%d+: %-?', ''))
end

for _, i in ipairs(rest) do
  local wanted, epoch = tonumber(ARGV[6 + 2 * i]), ARGV[7 + 2 * i]
  if #KEYS == 1 then
    return {take(KEYS[1], wanted, epoch)}
  end
  local ok, answer = pcall(take, KEYS[i], wanted, epoch)
  answers[i] = ok and answer or {'error', said(answer)}
end
return answers
