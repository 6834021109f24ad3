-- Returns what identifies a Redis as a home of answers: an ID that it keeps, and its replication ID.
-- A copy of its data, such as a replica that was promoted, has the first and not the second.
--
-- KEYS[1]  the ID, a string that does not expire
-- ARGV[1]  the ID that a Redis gets that has none; '' for a Redis that is only looked at
--
-- Returns a text; false if there is no ID.

local info = redis.call('INFO', 'replication')
if ARGV[1] ~= '' then
  redis.call('SET', KEYS[1], ARGV[1], 'NX')
end
local id = redis.call('GET', KEYS[1])
return id and id ~= '' and id .. ' ' .. string.match(info, 'master_replid:(%x+)')
