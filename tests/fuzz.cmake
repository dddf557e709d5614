rhizome_fuzz(safetensors SOURCES safetensors_fuzz.cpp USES state COUNT 100000)
rhizome_fuzz(config SOURCES config_fuzz.cpp USES cli)
rhizome_fuzz(schedule SOURCES schedule_fuzz.cpp USES plan)
rhizome_fuzz(state SOURCES state_fuzz.cpp USES state)
