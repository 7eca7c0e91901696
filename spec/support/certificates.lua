-- Certificates for specs, made by openssl when a spec asks for them: a CA, and
-- what servers and clients show. Each is two files, NAME.crt and NAME.key.
--
--   local made = certificates.make()      -- in a new directory
--   made:path "server.crt"; made:remove()
--
--   ca, other       two CAs
--   server          by ca, for localhost, 127.0.0.1 and ::1
--   named           by ca, for redis.test and *.wild.test
--   client          by ca, for clients
--   stranger        by other, for clients
--   expired, early  by ca, of days that are over or to come
--   many            by ca, for addresses and names that are not here
--   self            signed by itself, for localhost and 127.0.0.1
--   locked          client's key again, opened by the password "sesame"

local process = require "spec.support.process"
local server = require "spec.support.server"

local certificates = {}
certificates.__index = certificates

local LOCAL = "DNS:localhost,IP:127.0.0.1,IP:::1"

local SCRIPT = [[
set -eu
cd "$1"
key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }
ca() {
  key "$1"
  openssl req -x509 -new -key "$1.key" -days 30 -subj "/CN=$1" -out "$1.crt"
}
# signed NAME CA FROM TO EXTENSIONS
signed() {
  key "$1"
  openssl req -new -key "$1.key" -subj "/CN=$1" -out "$1.csr"
  mkdir "$1.ca"
  : >"$1.ca/index"
  printf '%s\n' '[ca]' 'default_ca=c' '[c]' "database=$1.ca/index" \
    "new_certs_dir=$1.ca" 'rand_serial=yes' 'default_md=sha256' 'policy=p' \
    '[p]' 'commonName=supplied' '[x]' "$5" >"$1.ca/conf"
  openssl ca -batch -notext -config "$1.ca/conf" -extensions x \
    -startdate "$3" -enddate "$4" -keyfile "$2.key" -cert "$2.crt" \
    -in "$1.csr" -out "$1.crt"
}
past=20200101000000Z now=$(date -u -d '1 hour ago' +%Y%m%d%H%M%SZ)
soon=$(date -u -d '1 day' +%Y%m%d%H%M%SZ)
later=$(date -u -d '30 days' +%Y%m%d%H%M%SZ)
client='extendedKeyUsage=clientAuth'
ca ca
ca other
signed server ca "$now" "$later" "subjectAltName=$2"
signed named ca "$now" "$later" 'subjectAltName=DNS:redis.test,DNS:*.wild.test'
signed many ca "$now" "$later" \
  'subjectAltName=IP:2001:db8::7,IP:10.0.0.7,DNS:redis.test'
signed bare ca "$now" "$later" 'basicConstraints=CA:FALSE'
signed client ca "$now" "$later" "$client"
signed stranger other "$now" "$later" "$client"
signed expired ca "$past" "$now" "subjectAltName=$2"
signed early ca "$soon" "$later" "subjectAltName=$2"
key self
openssl req -x509 -new -key self.key -days 30 -subj /CN=self \
  -addext "subjectAltName=$2" -out self.crt
cp client.crt locked.crt
openssl ec -in client.key -aes128 -passout pass:sesame -out locked.key
]]

--- Makes them all; dir: an existing directory, or nil for a new one.
function certificates.make(dir)
  local self = setmetatable({ dir = dir or server.new_dir() }, certificates)
  local status, out, err = process.run {
    command = { "sh", "-c", "exec 2>&1\n" .. SCRIPT, "sh", self.dir, LOCAL },
    timeout = 120, -- a busy machine may take that for a dozen keys
  }
  assert(status == 0, tostring(out) .. tostring(err))
  return self
end

function certificates:path(name)
  return self.dir .. "/" .. name
end

--- Settings for a redis-server (spec/support/redis.lua) that shows `name`.
--- It listens with TLS on tls_port, which the caller adds.
function certificates:server(name, more)
  local settings = {
    tls_cert_file = self:path(name .. ".crt"),
    tls_key_file = self:path(name .. ".key"),
    tls_ca_cert_file = self:path "ca.crt",
    tls_auth_clients = "no",
  }
  for key, value in pairs(more or {}) do settings[key] = value end
  return settings
end

--- Options of a store at `url`, whose client believes `ca` and shows `name`.
function certificates:client(url, ca, name, more)
  local tls = { cafile = self:path(ca), cert = name and
    self:path(name .. ".crt"), key = name and self:path(name .. ".key") }
  for option, value in pairs(more or {}) do tls[option] = value end
  return { url = url, tls = tls }
end

function certificates:remove()
  server.remove_dir(self.dir)
end

return certificates
