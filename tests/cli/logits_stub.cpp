// logits_stub STATE|FILE TOKEN...: what a stored GPT says behind these tokens, a number per line.
#include <cstdio>

#include "cli/stored_gpt.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "engine/generator.hpp"

namespace rhizome {
namespace {

void print_logits(const std::string& path, const std::vector<std::string>& words) {
    const cli::StoredGpt stored = cli::open_stored_gpt(state::make_file_system(), path, {});
    const auto device = device::make_reference_device(1);
    engine::Generator generator{
        *device, stored.model, stored.precision,
        [&](std::int32_t place, std::span<std::byte> to) { stored.weights->read(place, to); }};
    std::vector<std::int32_t> tokens;
    for (const std::string& word : words) {
        tokens.push_back(static_cast<std::int32_t>(parse_integer(word).value_or(-1)));
    }
    for (const double logit : generator.logits(tokens)) std::printf("%.17g\n", logit);
}

}  // namespace
}  // namespace rhizome

int main(int count, char** words) {
    if (count < 3) return 2;
    try {
        rhizome::print_logits(words[1], {words + 2, words + count});
    } catch (const rhizome::UserError& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return static_cast<int>(error.code());
    }
    return 0;
}
