rhizome_fuzz(safetensors SOURCES safetensors_fuzz.cpp USES state COUNT 100000)
