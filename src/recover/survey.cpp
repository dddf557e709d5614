#include "recover/survey.hpp"

#include <bit>

#include "core/error.hpp"

namespace rhizome::recover {
namespace {

constexpr std::size_t bits = 32;

std::size_t words_for(std::size_t members) { return (members + bits - 1) / bits; }

void add_set(std::vector<std::uint32_t>& words, const std::vector<bool>& set) {
    const std::size_t first = words.size();
    words.resize(first + words_for(set.size()));
    for (std::size_t i = 0; i < set.size(); ++i) {
        if (set[i]) words[first + i / bits] |= std::uint32_t{1} << (i % bits);
    }
}

std::vector<bool> take_set(std::span<const std::uint32_t>& words, std::size_t size) {
    std::vector<bool> set(size);
    for (std::size_t i = 0; i < size; ++i) set[i] = (words[i / bits] >> (i % bits) & 1) != 0;
    words = words.subspan(words_for(size));
    return set;
}

}  // namespace

std::size_t words_of(const ReportSize& size) {
    return 1 + size.notes + words_for(size.chunks) + words_for(size.layers) + words_for(size.lanes);
}

std::vector<std::uint32_t> to_words(const Report& report) {
    std::vector<std::uint32_t> words{static_cast<std::uint32_t>(report.steps)};
    for (const std::int32_t note : report.notes) {
        words.push_back(std::bit_cast<std::uint32_t>(note));
    }
    add_set(words, report.owns);
    add_set(words, report.holds);
    add_set(words, report.lanes);
    return words;
}

Report parse_report(WorkerId worker, const ReportSize& size, std::span<const std::uint32_t> words) {
    ENSURE(words.size() == words_of(size));
    Report report{.worker = worker, .steps = static_cast<std::int32_t>(words.front())};
    words = words.subspan(1);
    for (std::size_t i = 0; i < size.notes; ++i) {
        report.notes.push_back(std::bit_cast<std::int32_t>(words[i]));
    }
    words = words.subspan(size.notes);
    report.owns = take_set(words, size.chunks);
    report.holds = take_set(words, size.layers);
    report.lanes = take_set(words, size.lanes);
    return report;
}

}  // namespace rhizome::recover
