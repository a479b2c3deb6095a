-- SPDX-License-Identifier: MIT
-- Accounts in an SQLite database: four processes move money at the same time, each over its own
-- connection, and no cent is lost.
local mare, sqlite, file = require "mare", require "mare.sqlite", require "mare.file"

local folder <const> = assert(file.tempfolder())
local path <const> = folder .. "/bank.db"

local db = assert(sqlite.open(path))
db:exec [[
    PRAGMA journal_mode = WAL;
    CREATE TABLE account (id INTEGER PRIMARY KEY, owner TEXT NOT NULL, cents INTEGER NOT NULL
                          CHECK (cents >= 0));
]]
for _, owner in ipairs {"Ana", "Rui", "Eva", "Tom"} do
    db:exec("INSERT INTO account (owner, cents) VALUES (?, ?)", owner, 10000)
end

-- Either both accounts change or none does.
local function move(own, from, to, cents)
    return own:transaction(function(tx)
        assert(tx:exec("UPDATE account SET cents = cents + ? WHERE id = ?", cents, to))
        return tx:exec("UPDATE account SET cents = cents - ? WHERE id = ?", cents, from)
    end)
end

local tellers = {}
for i = 1, 4 do
    tellers[i] = mare.spawn(function()
        local own <close> = assert(sqlite.open(path, {busy = 60}))
        own:exec "PRAGMA synchronous = off" -- it is only an example
        for n = 1, 20 do assert(move(own, i, i % 4 + 1, n)) end
    end)
end
for _, teller in ipairs(tellers) do assert(teller:join()) end

local _, why = move(db, 1, 2, 1000000)
print("too much:", why)
for row in db:rows "SELECT owner, cents FROM account ORDER BY id" do
    print(row.owner, row.cents)
end
print("all:", db:row "SELECT sum(cents) AS sum FROM account".sum)
db:close()
file.remove(folder, {tree = true})
