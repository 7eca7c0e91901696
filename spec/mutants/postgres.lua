-- What notices mistakes in this store, which come by operator (operators.lua).
return {
  specs = "spec/sql/faults_spec.lua spec/sql/server_spec.lua"
    .. " spec/postgres/faults_spec.lua spec/postgres/server_spec.lua"
    .. " spec/contract/contract_spec.lua",
  mutants = {},
}
