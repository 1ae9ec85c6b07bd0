package onceredis

import "github.com/redis/go-redis/v9"

// A record is one string under one key. It begins with a header of a fixed length, so that a step
// reads and changes it in place, without touching a large outcome:
//
//	offset length
//	     0      1  version of this layout: 1
//	     1      1  state: f in flight, c completed, r released, u unknown
//	     2      1  what follows if the attempt is lost: r retry, h hold
//	     3      1  1 if the latest attempt came after a lost one, else 0
//	     4      1  the outcome: k kept, t tombstone
//	     5      8  fence
//	    13      8  when the latest attempt began
//	    21      8  when its lease ends
//	    29      8  when it ended, 0 while it has not
//	    37      8  the last arrival, at most 1/16 of the retention behind
//	    45      8  retention
//	    53      4  attempts so far
//	    57      2  length of the note
//	    59      4  length of the outcome's data
//	    63     33  fingerprint
//	    96     16  owner: of the latest attempt, or the token of a later decision
//	   112         the note, then the data
//
// Numbers are unsigned and big-endian, times in µs since 1970 and spans in µs: all stay below 2^53,
// which Lua holds exactly, until the year 2255.
const headerSize = 112

// prelude begins each script.
//
// KEYS[1] is the record, ARGV[1] what is added to the server's time in µs: 0 but in tests.
//
// fetch returns the record, or nil if there is none, and as its second result what the script has
// to return at once: {"corrupt"}, or an error of the server. A record past its retention is
// returned with gone set: it is absent, but for its fence, which goes on rising. It reads so much
// that one command is enough for most records.
//
// save writes a record as a whole, with the expiry that belongs to its state: none while it is
// unknown or can become held; otherwise a 16th of the retention more than was asked for, so that
// not each arrival has to be written down.
const prelude = `
local key, t = KEYS[1], redis.call('TIME')
local now = t[1] * 1000000 + t[2] + ARGV[1]
local LAYOUT = '>c1c1c1c1c1I8I8I8I8I8I8I4I2I4c33c16'

local function kept(r) return r.retention + math.ceil(r.retention / 16) end

local function fetch()
  local h = redis.pcall('GETRANGE', key, 0, 4095)
  if type(h) == 'table' then
    if string.find(h.err, 'WRONGTYPE', 1, true) then return nil, {'corrupt'} end
    return nil, h
  end
  if h == '' and redis.call('EXISTS', key) == 0 then return nil end
  if #h < 112 or not string.find(h, '^1[fcru][rh][01][kt]') then return nil, {'corrupt'} end
  local _, state, policy, takeover, kind, fence, claimed, lease, finished, last, retention, attempt,
    notes, size, print, owner = struct.unpack(LAYOUT, h)
  local r = { -- all at once: a table that grows is made several times
    head = h, state = state, policy = policy, takeover = takeover, kind = kind, fence = fence,
    claimed = claimed, lease = lease, finished = finished, last = last, retention = retention,
    attempt = attempt, notes = notes, size = size, print = print, owner = owner,
    ended = state == 'c' or state == 'r', gone = false,
  }
  local length = #h
  if length == 4096 then length = redis.call('STRLEN', key) end
  if length ~= 112 + notes + size or attempt == 0
    or math.max(fence, claimed, lease, finished, last, retention) >= 2^53 then
    return nil, {'corrupt'}
  end
  r.gone = r.ended and now >= math.max(r.finished, r.last) + kept(r)
  return r
end

local function part(r, from, length)
  if from + length <= 4096 then return string.sub(r.head, from + 1, from + length) end
  return redis.call('GETRANGE', key, from, from + length - 1)
end

local function note(r) return part(r, 112, r.notes) end

local function millis(us) return math.max(math.ceil(us / 1000), 1) end

local function save(r, note, data)
  local v = struct.pack(LAYOUT, '1', r.state, r.policy, r.takeover, r.kind, r.fence, r.claimed,
    r.lease, r.finished, r.last, r.retention, r.attempt, #note, #data, r.print, r.owner)
    .. note .. data
  if r.state == 'c' or r.state == 'r' then
    redis.call('SET', key, v, 'PX', millis(math.max(r.finished, r.last) + kept(r) - now))
  elseif r.state == 'f' and r.policy == 'r' then
    redis.call('SET', key, v, 'PX', millis(r.lease - now + kept(r)))
  else
    redis.call('SET', key, v)
  end
end

local function owned(owner, fence)
  local r, stop = fetch()
  if stop then return nil, stop end
  if not r or r.gone or r.owner ~= owner or r.fence ~= tonumber(fence) then
    return nil, {'lost'}
  end
  return r
end

-- A step that was made before is written once more where replicas have to confirm it: they confirm
-- what this connection has written.
local function again(confirmed)
  if confirmed == '1' then redis.call('SETRANGE', key, 0, '1') end
end
`

// claimScript takes an identity.
//
// KEYS[1] record
//
// ARGV[1] added to the server's time, µs
// ARGV[2] fingerprint
// ARGV[3] owner
// ARGV[4] lease, µs
// ARGV[5] retention, µs
// ARGV[6] r or h: retry or hold, if the attempt is lost
// ARGV[7] note
// ARGV[8] 1 if replicas confirm
//
// Output: {"granted", fence, attempt, takeover} | {"mismatch"} | {"replay", kind, finished, data} |
// {"in flight", rest, age} | {"held", since} | {"corrupt"}
var claimScript = redis.NewScript(prelude + `
local r, stop = fetch()
if stop then return stop end

local function granted() return {'granted', r.fence, r.attempt, tonumber(r.takeover)} end

local text = ARGV[7]
if not r or r.gone then
  r = {
    fence = r and r.fence or 0, attempt = 0, takeover = '0', print = ARGV[2],
    state = '', policy = '', kind = '', owner = '',
    claimed = 0, lease = 0, finished = 0, last = 0, retention = 0,
  }
else
  if r.print ~= ARGV[2] then return {'mismatch'} end
  if r.state == 'f' and r.owner == ARGV[3] then
    again(ARGV[8])
    return granted()
  end
  if now - (r.ended and math.max(r.finished, r.last) or r.last) >= r.retention / 16 then
    r.last = now
    redis.call('SETRANGE', key, 37, struct.pack('>I8', now))
    if r.ended then redis.call('PEXPIRE', key, millis(kept(r))) end
  end
  if r.state == 'c' then
    return {'replay', r.kind, r.finished, part(r, 112 + r.notes, r.size)}
  end
  if r.state == 'f' and r.lease > now then return {'in flight', r.lease - now, now - r.claimed} end
  if r.state ~= 'r' and (r.policy == 'h' or ARGV[6] == 'h') then
    if r.policy ~= 'h' then
      redis.call('SETRANGE', key, 2, 'h')
      redis.call('PERSIST', key)
    end
    return {'held', r.state == 'u' and r.finished or r.lease}
  end
  r.takeover = r.state == 'r' and '0' or '1'
  text = note(r)
end
r.state, r.policy, r.kind, r.owner = 'f', ARGV[6], 'k', ARGV[3]
r.fence, r.attempt, r.last = math.max(r.fence + 1, now), r.attempt + 1, now
r.claimed, r.lease, r.finished, r.retention = now, now + ARGV[4], 0, tonumber(ARGV[5])
save(r, text, '')
return granted()
`)

// completeScript ends an attempt.
//
// KEYS[1] record
//
// ARGV[1] added to the server's time, µs
// ARGV[2] owner
// ARGV[3] fence
// ARGV[4] k, t or u: kept, tombstone or unknown
// ARGV[5] data
// ARGV[6] 1 if replicas confirm
//
// Output: {"ok"} | {"lost"} | {"corrupt"}
var completeScript = redis.NewScript(prelude + `
local r, stop = owned(ARGV[2], ARGV[3])
if stop then return stop end
if r.state == 'r' then return {'lost'} end
if r.state == 'c' or r.state == 'u' and ARGV[4] == 'u' then
  again(ARGV[6])
  return {'ok'}
end
r.finished = now
if ARGV[4] == 'u' then
  r.state = 'u'
  save(r, note(r), '')
else
  r.state, r.kind = 'c', ARGV[4]
  save(r, note(r), ARGV[5])
end
return {'ok'}
`)

// releaseScript gives an identity back.
//
// KEYS[1] record
//
// ARGV[1] added to the server's time, µs
// ARGV[2] owner
// ARGV[3] fence
// ARGV[4] 1 if replicas confirm
//
// Output: {"ok"} | {"lost"} | {"corrupt"}
var releaseScript = redis.NewScript(prelude + `
local r, stop = owned(ARGV[2], ARGV[3])
if stop then return stop end
if r.state == 'c' then return {'lost'} end
if r.state == 'r' then
  again(ARGV[4])
  return {'ok'}
end
r.state, r.finished = 'r', now
save(r, note(r), '')
return {'ok'}
`)

// renewScript lets a lease last longer.
//
// KEYS[1] record
//
// ARGV[1] added to the server's time, µs
// ARGV[2] owner
// ARGV[3] fence
// ARGV[4] lease, µs
//
// Output: {"ok"} | {"lost"} | {"corrupt"}
var renewScript = redis.NewScript(prelude + `
local r, stop = owned(ARGV[2], ARGV[3])
if stop then return stop end
if r.state ~= 'f' then return {'lost'} end
redis.call('SETRANGE', key, 21, struct.pack('>I8', now + ARGV[4]))
if r.policy == 'r' then redis.call('PEXPIRE', key, millis(ARGV[4] + kept(r))) end
return {'ok'}
`)

// resolveScript carries a person's decision out. The record then belongs to the decision: a late
// owner has lost its lease, and the same call that is sent again is told that it was done.
//
// KEYS[1] record
//
// ARGV[1] added to the server's time, µs
// ARGV[2] run again | answer with | release done
// ARGV[3] fence that was seen; 0: any
// ARGV[4] k or t: kept or tombstone
// ARGV[5] data
// ARGV[6] token of this call: the record's next owner
// ARGV[7] 1 if replicas confirm
//
// Output: {"ok"} | {"not found"} | {"state"} | {"corrupt"}
var resolveScript = redis.NewScript(prelude + `
local r, stop = fetch()
if stop then return stop end
if not r or r.gone then return {'not found'} end
if r.owner == ARGV[6] then
  again(ARGV[7])
  return {'ok'}
end
local lost = r.state == 'u' or r.state == 'f' and r.lease <= now
local allowed = lost
if ARGV[2] == 'release done' then allowed = r.state == 'c' end
local seen = tonumber(ARGV[3])
if not allowed or seen ~= 0 and seen ~= r.fence then return {'state'} end
r.fence, r.finished, r.owner = math.max(r.fence + 1, now), now, ARGV[6]
if ARGV[2] == 'answer with' then
  r.state, r.kind = 'c', ARGV[4]
  save(r, note(r), ARGV[5])
else
  r.state, r.kind = 'r', 'k'
  save(r, note(r), '')
end
return {'ok'}
`)

// readScript returns a record as it is stored.
//
// KEYS[1] record
//
// ARGV[1] added to the server's time, µs
//
// Output: {"record", now, value} | {"not found"} | {"corrupt"}
var readScript = redis.NewScript(prelude + `
local r, stop = fetch()
if stop then return stop end
if not r or r.gone then return {'not found'} end
return {'record', now, redis.call('GET', key)}
`)

// scripts are all of them, for Open.
var scripts = []*redis.Script{
	claimScript, completeScript, releaseScript, renewScript, resolveScript, readScript,
}
