-- Takes tokens from the bucket of one caller if it has as many as wanted, else none. It is one
-- atomic step, written by one SET at the end. The time is that of the server: the clocks of the
-- nodes do not matter.
--
-- KEYS[1]  the bucket: 'tokens at', how many tokens it had at a time in µs since the Unix epoch.
--          No key means a full bucket.
-- ARGV[1]  tokens per second, above 0
-- ARGV[2]  how many tokens a full bucket has, 1 or more
-- ARGV[3]  how many are wanted, 0 (which takes nothing) to ARGV[2]
--
-- Returns an array of two strings: '1' if the tokens were taken, else '0'; and how many there are
-- now, with a fraction.

-- slack makes up for rounding: a caller that waited exactly as long as a token takes gets it.
local slack = 0.000001

local rate, size, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local tokens, back = size, false
local bucket = redis.call('GET', KEYS[1])
if bucket then
  local had, at = string.match(bucket, '^(%S+) (%d+)$')
  had, at = tonumber(had or ''), tonumber(at or '')
  if had and had >= 0 then -- anything else was not written by this script
    -- A clock that went back, or that of a promoted replica, adds nothing; time counts from now on.
    back = now < at
    tokens = math.min(size, had + math.max(0, now - at) * rate / 1000000)
  end
end

local taken = wanted <= tokens + slack
if taken then
  tokens = math.max(0, tokens - wanted)
end
if taken and wanted > 0 or back then
  -- The key expires when the bucket is full again.
  local full = math.ceil((size - tokens) / rate * 1000) + 1
  redis.call('SET', KEYS[1], string.format('%.17g %.0f', tokens, now), 'PX', string.format('%.0f', full))
end
return {taken and '1' or '0', string.format('%.17g', tokens)}
