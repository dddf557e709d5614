// Runs a fuzz target without a fuzzer: its seeds, files that are named, and then mutations of the
// seeds. Mutation number N is the same on every machine and in every run.
//
//   fuzz_NAME [--count N] [--first N] [FILE|FOLDER...]
//   fuzz_NAME --write-seeds FOLDER      for a fuzzer to begin with
//
// FUZZ_SECONDS (environment) mutates for so long instead of --count times. The target runs in a
// child process, which leaves in shared memory what it is at: so whatever ends it, or takes too
// long, the input is known and written to fuzz_NAME.crash. Exit code 1 if it was ended, or if the
// target's code did not accept its seeds, or took or refused everything.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "fuzz/target.hpp"

// GCC defines a macro, clang has a feature.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FUZZ_IS_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FUZZ_IS_SANITIZED
#endif
#endif

namespace rhizome::fuzz {
namespace {

constexpr std::int64_t count_default = 20'000;
constexpr std::int64_t judge_from = 1'000;  // mutations, before their outcomes say something
constexpr unsigned input_seconds_max = 30;
constexpr std::size_t input_bytes_max = 1 << 20;
// Nothing that inputs of that size say may make the code ask for more. Sanitizers need more.
[[maybe_unused]] constexpr rlim_t memory_bytes_max = rlim_t{1} << 30;

/// What the child has done so far; in memory that the parent sees.
struct Progress {
    std::atomic<std::int64_t> plain{0};      // seeds and files
    std::atomic<std::int64_t> mutation{-1};  // the one under way; -1: none yet
    std::atomic<std::int64_t> done{0};
    std::atomic<std::int64_t> accepted{0};
    std::atomic<std::int64_t> refused{0};
    std::atomic<bool> finished{false};
};

/// Where note() counts. A target has one signature, libFuzzer's, and no way to be handed it.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
Progress* progress = nullptr;

struct Options {
    std::string name;
    std::int64_t first = 0;
    std::int64_t count = count_default;
    std::chrono::seconds time{0};  // 0: `count` decides
    std::vector<std::string> files{};
    std::string seeds_folder{};
};

/// Random changes of one input, some of them blind, some of the kinds that parsers trip over.
class Mutator {
  public:
    explicit Mutator(std::uint64_t number) : random_{number} {}

    std::size_t below(std::size_t limit) {
        return limit == 0 ? 0 : static_cast<std::size_t>(random_() % limit);
    }

    void change(std::string& input, const std::string& other) {
        const std::size_t at = below(input.size() + 1);
        switch (below(10)) {
            case 0:
                if (at < input.size()) input[at] ^= static_cast<char>(1U << below(8));
                return;
            case 1:
                if (at < input.size()) input[at] = static_cast<char>(below(256));
                return;
            case 2:
                input.erase(at, 1 + below(1U << below(8)));
                return;
            case 3:
                input.insert(at, std::string(1 + below(4), static_cast<char>(below(256))));
                return;
            case 4:  // a piece of another input, or of this one, put in or over
                splice(input, at, other);
                return;
            case 5:
                input.resize(at);
                return;
            case 6:
                write_integer(input, at);
                return;
            case 7:
                write_number(input, at);
                return;
            case 8:
                copy_word(input, at);
                return;
            default:
                write_token(input, at);
        }
    }

  private:
    void splice(std::string& input, std::size_t at, const std::string& other) {
        const std::string& from = below(2) == 0 ? other : input;
        const std::string piece = from.substr(below(from.size() + 1), 1 + below(1U << below(9)));
        if (below(2) == 0) {
            input.insert(at, piece);
        } else {
            input.replace(at, piece.size(), piece);
        }
    }

    /// Binary, of 1 to 8 bytes: the borders of what fits.
    void write_integer(std::string& input, std::size_t at) {
        const std::uint64_t bit = std::uint64_t{1} << below(64);
        const std::uint64_t value = bit + below(3) - 1;
        const std::size_t bytes = std::size_t{1} << below(4);
        if (at + bytes <= input.size()) std::memcpy(input.data() + at, &value, bytes);
    }

    /// In place of the next decimal number in the text.
    void write_number(std::string& input, std::size_t at) {
        const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
        const auto begin =
            std::find_if(input.begin() + static_cast<std::ptrdiff_t>(at), input.end(), is_digit);
        if (begin == input.end()) return;
        const auto end = std::find_if_not(begin, input.end(), is_digit);
        const std::uint64_t bit = std::uint64_t{1} << below(64);
        const std::string number =
            below(4) == 0 ? std::to_string(below(20)) : std::to_string(bit + below(3) - 1);
        input.replace(begin, end, number);
    }

    /// A word or number of the text in place of another one.
    void copy_word(std::string& input, std::size_t at) {
        const auto is_word = [](char c) {
            return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                   c == '_' || c == '.';
        };
        const auto word_behind = [&](std::size_t begin) {
            const auto from = std::find_if(input.begin() + static_cast<std::ptrdiff_t>(begin),
                                           input.end(), is_word);
            return std::pair{from, std::find_if_not(from, input.end(), is_word)};
        };
        const auto source = word_behind(below(input.size() + 1));
        const std::string word{source.first, source.second};
        const auto target = word_behind(at);
        if (!word.empty()) input.replace(target.first, target.second, word);
    }

    void write_token(std::string& input, std::size_t at) {
        static constexpr const char* tokens[] = {"{", "}", "[",    "]",  "\"",  ",",  ":",
                                                 "=", "#", "null", "-1", "1e9", "\n", "\\u0",
                                                 "0", " ", "/",    ".",  "\xFF"};
        std::string text = tokens[below(std::size(tokens))];
        if (below(20) == 0) {
            std::string many;
            for (std::size_t i = below(5000); i > 0; --i) many += text;
            text = many;
        }
        input.insert(at, text);
    }

    std::mt19937_64 random_;
};

std::string mutation(const std::vector<std::string>& corpus, std::int64_t number) {
    Mutator mutator{static_cast<std::uint64_t>(number)};
    std::string input = corpus[mutator.below(corpus.size())];
    const std::string& other = corpus[mutator.below(corpus.size())];
    for (std::size_t changes = 1 + mutator.below(4); changes > 0; --changes) {
        mutator.change(input, other);
    }
    if (input.size() > input_bytes_max) input.resize(input_bytes_max);
    if (mutator.below(2) == 0) mend(input);
    return input;
}

void run(const std::string& input) {
    ::alarm(input_seconds_max);  // its signal ends the process
    // A copy of exactly that size, so that a sanitizer sees a read behind it.
    const std::vector<std::uint8_t> bytes(input.begin(), input.end());
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

bool is_out_of(const Options& options, std::chrono::steady_clock::time_point begin,
               std::int64_t done) {
    if (options.time.count() == 0) return done >= options.count;
    return std::chrono::steady_clock::now() - begin >= options.time;
}

void run_all(const Options& options, const std::vector<std::string>& corpus) {
#ifndef FUZZ_IS_SANITIZED
    const rlimit limit{memory_bytes_max, memory_bytes_max};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) std::perror("setrlimit");
#endif
    const rlimit no_core{0, 0};
    if (::setrlimit(RLIMIT_CORE, &no_core) != 0) std::perror("setrlimit");
    for (const std::string& input : corpus) {
        run(input);
        ++progress->plain;
    }
    progress->accepted = 0;
    progress->refused = 0;
    const auto begin = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; !is_out_of(options, begin, i); ++i) {
        progress->mutation = options.first + i;
        run(mutation(corpus, options.first + i));
        ++progress->done;
    }
    progress->finished = true;
}

[[noreturn]] void be_the_child(const Options& options, const std::vector<std::string>& corpus) {
    try {
        run_all(options, corpus);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "unexpected exception: %s\n", error.what());
        std::fflush(stderr);
        _exit(1);
    }
    _exit(0);
}

/// Every seed, by itself, is accepted: mutations of a refused one would test little.
bool seeds_are_good() {
    bool good = true;
    const std::vector<std::string> all = seeds();
    for (std::size_t i = 0; i < all.size(); ++i) {
        const std::int64_t before = progress->accepted;
        run(all[i]);
        if (progress->accepted == before) {
            std::fprintf(stderr, "seed %zu is not accepted\n", i);
            good = false;
        }
    }
    return good;
}

int report_end(const Options& options, const std::vector<std::string>& corpus, int status) {
    const bool on_mutation = progress->mutation >= 0;
    const std::int64_t number = on_mutation ? progress->mutation.load() : progress->plain.load();
    const std::string input =
        on_mutation ? mutation(corpus, number) : corpus.at(static_cast<std::size_t>(number));
    const std::string file = options.name + ".crash";
    std::ofstream{file, std::ios::binary} << input;
    const std::string how =
        !WIFSIGNALED(status)          ? "exit code " + std::to_string(WEXITSTATUS(status))
        : WTERMSIG(status) == SIGALRM ? "more than " + std::to_string(input_seconds_max) + " s"
                                      : "signal " + std::to_string(WTERMSIG(status));
    std::fprintf(stderr, "%s: %s %lld ended it (%s), its input is in %s\n", options.name.c_str(),
                 on_mutation ? "mutation" : "input", static_cast<long long>(number), how.c_str(),
                 file.c_str());
    return 1;
}

int report(const Options& options, std::size_t inputs) {
    const long long done = progress->done;
    const long long accepted = progress->accepted;
    const long long refused = progress->refused;
    std::printf("%s: %lld mutations of %zu inputs, %lld accepted, %lld refused\n",
                options.name.c_str(), done, inputs, accepted, refused);
    if (accepted + refused != done) {
        std::fprintf(stderr, "the target did not note every outcome\n");
        return 1;
    }
    if (done >= judge_from && (accepted == 0 || refused == 0)) {
        std::fprintf(stderr, "all mutations ended in the same way: the target tests nothing\n");
        return 1;
    }
    return 0;
}

std::string content_of(const std::filesystem::path& path) {
    std::ifstream file{path, std::ios::binary};
    return {std::istreambuf_iterator<char>{file}, {}};
}

/// The seeds, and the files that were named.
std::vector<std::string> corpus_of(const Options& options) {
    std::vector<std::string> corpus = seeds();
    for (const std::string& path : options.files) {
        std::vector<std::filesystem::path> found;
        if (std::filesystem::is_directory(path)) {
            for (const auto& entry : std::filesystem::directory_iterator{path}) {
                found.push_back(entry.path());
            }
        } else {
            found.emplace_back(path);
        }
        std::sort(found.begin(), found.end());
        for (const auto& file : found) corpus.push_back(content_of(file));
    }
    return corpus;
}

int write_seeds(const std::string& folder) {
    std::filesystem::create_directories(folder);
    const std::vector<std::string> all = seeds();
    for (std::size_t i = 0; i < all.size(); ++i) {
        std::ofstream{folder + "/seed-" + std::to_string(i), std::ios::binary} << all[i];
    }
    return 0;
}

Options read_options(int count, char** words) {
    Options options{.name = std::filesystem::path{words[0]}.filename().string()};
    for (int i = 1; i < count; ++i) {
        const std::string word = words[i];
        const bool has_value = i + 1 < count;
        if (word == "--count" && has_value) {
            options.count = std::atoll(words[++i]);
        } else if (word == "--first" && has_value) {
            options.first = std::atoll(words[++i]);
        } else if (word == "--write-seeds" && has_value) {
            options.seeds_folder = words[++i];
        } else {
            options.files.push_back(word);
        }
    }
    if (const char* const seconds = std::getenv("FUZZ_SECONDS")) {
        options.time = std::chrono::seconds{std::atoll(seconds)};
    }
    return options;
}

int drive(const Options& options) {
    if (!options.seeds_folder.empty()) return write_seeds(options.seeds_folder);
    void* const shared = ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        std::perror("mmap");
        return 1;
    }
    progress = new (shared) Progress;
    const std::vector<std::string> corpus = corpus_of(options);
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child < 0) {
        std::perror("fork");
        return 1;
    }
    if (child == 0) be_the_child(options, corpus);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (!progress->finished || status != 0) return report_end(options, corpus, status);
    const int result = report(options, corpus.size());
    return seeds_are_good() ? result : 1;
}

}  // namespace

void note(Outcome outcome) {
    ++(outcome == Outcome::accepted ? progress->accepted : progress->refused);
}

}  // namespace rhizome::fuzz

int main(int count, char** words) {
    return rhizome::fuzz::drive(rhizome::fuzz::read_options(count, words));
}
