// The mathematics keys of a GPT, apart from the code that builds one, so that options can be read
// without it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace rhizome::model {

enum class Tying : std::uint8_t { tied, untied };  // is the head the token embedding, used again?

struct GptConfig {
    std::int32_t blocks = 4;
    std::int32_t channels = 64;
    std::int32_t heads = 4;     // divides channels
    std::int32_t context = 64;  // positions per sample
    std::int32_t vocabulary = 256;
    Tying tying = Tying::tied;
    double dropout = 0.0;  // in [0, 1)

    friend bool operator==(const GptConfig&, const GptConfig&) = default;
};

/// A published or customary shape that can be asked for by name.
struct GptSize {
    std::string_view name;
    std::int32_t blocks;
    std::int32_t channels;
    std::int32_t heads;
    std::int32_t context;
    std::int32_t vocabulary;
};

/// Radford et al. 2019 (gpt2*), Brown et al. 2020, table 2.1 (gpt3*); the small ones are ours.
inline constexpr std::array gpt_sizes{
    GptSize{"gpt-0.1m", 2, 64, 2, 64, 256},
    GptSize{"gpt-0.8m", 4, 128, 4, 128, 256},
    GptSize{"gpt-3m", 6, 192, 6, 256, 256},
    GptSize{"gpt-11m", 6, 384, 6, 256, 256},
    GptSize{"gpt2", 12, 768, 12, 1024, 50257},
    GptSize{"gpt2-medium", 24, 1024, 16, 1024, 50257},
    GptSize{"gpt2-large", 36, 1280, 20, 1024, 50257},
    GptSize{"gpt2-xl", 48, 1600, 25, 1024, 50257},
    GptSize{"gpt3-125m", 12, 768, 12, 2048, 50257},
    // The paper's 24 heads of 128 do not make 2048.
    GptSize{"gpt3-1.3b", 24, 2048, 32, 2048, 50257},
    GptSize{"gpt3-2.7b", 32, 2560, 32, 2048, 50257},
    GptSize{"gpt3-6.7b", 32, 4096, 32, 2048, 50257},
};

}  // namespace rhizome::model
