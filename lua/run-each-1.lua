-- Runs another script once for each key, in one command. The text of that script, which has one
-- key, replaces the line `-- SCRIPT`. An error of one run does not end the others.
--
-- KEYS one for each run
-- ARGV 1 a letter for each argument of the other script: s (one value for all runs) or n (one for
--        each run)
--      2 and more: the values, argument by argument
-- Reply {replies, errors}
--   replies  one for each run. 0: there was an error, or the run is left out, because the replies
--            before it have more than 1 MiB, and Redis serves no other client meanwhile
--   errors   for each error: the number of its run, and its text

local function run(KEYS, ARGV)
-- SCRIPT
end

local letters, first, at = ARGV[1], {}, 2
for column = 1, #letters do
  first[column] = at
  at = at + (string.sub(letters, column, column) == 's' and 1 or #KEYS)
end

local replies, errors, bytes_left = {}, {}, 1048576
for number, key in ipairs(KEYS) do
  local args, reply = {}, 0
  for column = 1, #letters do
    local offset = string.sub(letters, column, column) == 's' and 0 or number - 1
    args[column] = ARGV[first[column] + offset]
  end
  if bytes_left > 0 then
    local is_done, value = pcall(run, {key}, args)
    local failed = not is_done and value
    if type(value) == 'table' and value.err then failed = value.err end
    if failed then
      local text = tostring(failed)
      -- The client has to connect to another server, which it sees from the error of the command.
      if string.find(text, 'READONLY', 1, true) then return {err = text} end
      errors[#errors + 1] = number
      errors[#errors + 1] = text
    else
      reply = value
      local frame = type(value) == 'table' and value[2]
      if type(frame) == 'string' then bytes_left = bytes_left - #frame end
    end
  end
  replies[number] = reply
end
return {replies, errors}
