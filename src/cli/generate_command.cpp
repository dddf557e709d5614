#include "cli/generate_command.hpp"

#include "cli/memory_limit.hpp"
#include "cli/output_file.hpp"
#include "cli/stored_gpt.hpp"
#include "cli/values.hpp"
#include "core/text.hpp"
#include "engine/generator.hpp"
#include "state/share_file.hpp"

namespace rhizome::cli {
namespace {

constexpr std::int32_t byte_values = 256;

/// What comes out, as the prompt was given.
class Output {
  public:
    Output(int descriptor, TokenKind kind) : descriptor_{descriptor}, kind_{kind} {}

    Reader token(std::int32_t token) {
        if (kind_ == TokenKind::bytes)
            return write_output(descriptor_, std::string(1, static_cast<char>(token)));
        const std::string blank = is_first_ ? "" : " ";
        is_first_ = false;
        return write_output(descriptor_, blank + std::to_string(token));
    }
    Reader end() const { return write_output(descriptor_, "\n"); }

  private:
    int descriptor_;
    TokenKind kind_;
    bool is_first_ = true;
};

TokenKind kind_of_text(const GenerateOptions& options, const StoredGpt& stored) {
    if (options.prompt_ids) return TokenKind::numbers;
    if (stored.tokens == TokenKind::bytes) return TokenKind::bytes;
    throw ConfigError{visible(stored.path) +
                      " (its tokens are numbers and no text), give some with --prompt-ids 1,2,3"};
}

std::vector<std::int32_t> prompt_of(const GenerateOptions& options, const StoredGpt& stored) {
    std::vector<std::int32_t> tokens;
    if (options.prompt_ids) {
        tokens = *options.prompt_ids;
    } else {
        for (const char c : options.prompt.empty() ? "\n" : options.prompt) {
            tokens.push_back(static_cast<unsigned char>(c));
        }
    }
    for (const std::int32_t token : tokens) {
        if (token < stored.model.vocabulary) continue;
        throw ConfigError{(options.prompt_ids ? "--prompt-ids" : "--prompt") +
                          std::string{" (token "} + std::to_string(token) +
                          " is not below the vocabulary of " +
                          std::to_string(stored.model.vocabulary) + "), leave it out"};
    }
    return tokens;
}

void check_memory(const StoredGpt& stored, std::int64_t tokens) {
    expect_memory(static_cast<double>(
                      engine::Generator::planned_bytes(stored.model, stored.precision, tokens)),
                  "generating needs", "take a smaller model or fewer tokens");
}

/// A network that is ready to go on with a text.
struct Loaded {
    TokenKind kind;
    std::vector<std::int32_t> text;  // so far
    engine::Generator generator;
};

Loaded load(const std::shared_ptr<state::FileSystem>& files, const std::string& path,
            const GenerateOptions& options, device::Device& device) {
    const StoredGpt stored = open_stored_gpt(files, path, options.heads);
    const TokenKind kind = kind_of_text(options, stored);
    std::vector<std::int32_t> prompt = prompt_of(options, stored);
    check_memory(stored, static_cast<std::int64_t>(prompt.size()) + options.tokens);
    const auto read = [&](std::int32_t place, std::span<std::byte> to) {
        stored.weights->read(place, to);
    };
    return {kind, std::move(prompt),
            engine::Generator{device, stored.model, stored.precision, read}};
}

/// The newest that is whole, as far as it is needed.
Loaded load_first(const GenerateOptions& options, device::Device& device, const Log& log) {
    const auto files = state::make_file_system();
    const std::vector<std::string> paths = find_stored_gpts(*files, options.from);
    ENSURE(!paths.empty());
    for (std::size_t i = 0;; ++i) {
        const bool is_last = i + 1 == paths.size();
        std::string damage;
        try {
            return load(files, paths[i], options, device);
        } catch (const state::StateError& error) {
            if (is_last) throw;
            damage = error.what();
        } catch (const state::FileError& error) {
            damage = error.what();
            if (is_last) throw DataError{damage + ", check its name and rights"};
        }
        log.warn(damage + "; an older state is tried");
    }
}

}  // namespace

ExitCode generate_command(const GenerateOptions& options, const Log& log, int output) {
    const auto device = device::make_reference_device(options.threads);
    try {
        Loaded loaded = load_first(options, *device, log);
        engine::Sampling sampling{.rule = options.rule, .seed = options.seed};
        if (loaded.kind == TokenKind::bytes) sampling.tokens_below = byte_values;
        Output out{output, loaded.kind};
        for (std::int32_t i = 0; i < options.tokens; ++i) {
            loaded.text.push_back(loaded.generator.next(loaded.text, sampling));
            if (out.token(loaded.text.back()) == Reader::gone) return ExitCode::done;
        }
        static_cast<void>(out.end());
        return ExitCode::done;
    } catch (const state::FileError& error) {
        throw DataError{std::string{error.what()} + ", check its name and rights"};
    }
}

}  // namespace rhizome::cli
