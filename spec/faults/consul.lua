-- Faults to put back into the Consul store's driver; spec/sim/consul_spec shows
-- that the histories find each of them. A blank in `find` stands for any blanks
-- and line ends.

local ROOM = "csrc/store/session/consul/"

return {
  { name = "a query begins behind what a read may have missed",
    file = ROOM .. "watch.c",
    find = "w ? folder_of(l, path, lock, sight->seen)",
    put = "w ? folder_of(l, path, lock, l->seen)" },
  { name = "queries end with their connection",
    file = ROOM .. "driver.c", find = "dlk_consul_watches_renew(l);",
    put = "" },
}
