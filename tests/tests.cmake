rhizome_test(unit/core_philox_test LABELS unit USES core)
