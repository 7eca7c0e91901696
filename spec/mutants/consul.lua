-- What notices mistakes in this store, which come by operator (operators.lua).
return {
  specs = "spec/consul/units_spec.lua spec/consul/faults_spec.lua"
    .. " spec/session/faults_spec.lua spec/contract/contract_spec.lua",
  mutants = {},
}
