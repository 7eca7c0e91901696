-- What notices mistakes in this store, which come by operator (operators.lua).
return {
  specs = "spec/etcd/units_spec.lua spec/etcd/faults_spec.lua"
    .. " spec/session/faults_spec.lua spec/contract/contract_spec.lua",
  mutants = {},
}
