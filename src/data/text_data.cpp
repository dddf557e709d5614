#include "data/text_data.hpp"

#include <glob.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "core/digest.hpp"
#include "core/error.hpp"
#include "core/text.hpp"

namespace rhizome::data {
namespace {

struct GlobResult {
    glob_t found{};

    GlobResult() = default;
    ~GlobResult() { ::globfree(&found); }
    GlobResult(const GlobResult&) = delete;
    GlobResult& operator=(const GlobResult&) = delete;
};

/// The files of a path or pattern, sorted. `key` is the option it came from.
std::vector<std::string> expand(const std::string& pattern, std::string_view key) {
    if (pattern.find_first_of("*?[") == std::string::npos) return {pattern};

    // A folder that cannot be listed might hold matches, so it is an error and not silently fewer
    // data. One that is missing, or is a file, holds none.
    const auto stop_unless_absent = [](const char*, int error) {
        return error == ENOENT || error == ENOTDIR ? 0 : 1;
    };
    GlobResult result;
    // glob sorts by the locale; the order of the data must not depend on it.
    const int outcome = ::glob(pattern.c_str(), GLOB_NOSORT, stop_unless_absent, &result.found);
    const std::string where = std::string{key} + "=" + pattern;
    if (outcome == GLOB_NOMATCH) {
        throw DataError{where +
                        " matches no file (it is a pattern), check the folder, or write \\*, "
                        "\\? or \\[ for the characters themselves"};
    }
    if (outcome == GLOB_NOSPACE) throw std::bad_alloc{};
    if (outcome != 0) {
        throw DataError{where +
                        " cannot be expanded (a folder on the way cannot be listed), make "
                        "the folders readable for this user"};
    }
    std::vector<std::string> paths{result.found.gl_pathv,
                                   result.found.gl_pathv + result.found.gl_pathc};
    std::sort(paths.begin(), paths.end());
    return paths;
}

/// The files of one set and how their samples are numbered.
/// Invariant: first_samples ascends strictly and has one place more than sequences; its last is the
/// number of samples.
struct Corpus {
    std::vector<Sequence> sequences;
    std::vector<std::int64_t> first_samples;
    std::int64_t context;

    [[nodiscard]] std::int64_t samples() const { return first_samples.back(); }
};

Corpus open_corpus(const std::string& pattern, std::string_view key, Format format,
                   std::int32_t context) {
    Corpus corpus{.sequences = {}, .first_samples = {0}, .context = context};
    for (const std::string& path : expand(pattern, key)) {
        const Sequence& sequence = corpus.sequences.emplace_back(path, format);
        const std::int64_t samples = (sequence.tokens() - 1) / corpus.context;
        if (samples < 1) {
            throw DataError{"data file " + path + " is too short for one sample (" +
                            std::to_string(sequence.tokens()) +
                            " tokens, model.context=" + std::to_string(context) + " needs " +
                            std::to_string(corpus.context + 1) +
                            "), lower model.context or name a longer file"};
        }
        corpus.first_samples.push_back(corpus.samples() + samples);
    }
    return corpus;
}

/// Checks all tokens of all files; the digest is of the first `samples` samples.
std::string scan(const Corpus& corpus, std::int32_t vocabulary, std::int64_t samples) {
    Digest digest;
    for (std::size_t i = 0; i < corpus.sequences.size(); ++i) {
        const std::int64_t first = corpus.first_samples[i];
        const std::int64_t digested =
            std::clamp(samples, first, corpus.first_samples[i + 1]) - first;
        const std::int64_t tokens = digested == 0 ? 0 : digested * corpus.context + 1;
        // The count keeps ("ab", "c") and ("a", "bc") apart: they make other samples.
        if (tokens > 0) digest.add(std::as_bytes(std::span{&tokens, 1}));
        corpus.sequences[i].scan(vocabulary, tokens, digest);
    }
    return digest.hex();
}

/// Samples [first, first + samples) of a corpus that training and validation may share.
class TextDataset final : public Dataset {
  public:
    TextDataset(std::shared_ptr<const Corpus> corpus, std::int64_t first, std::int64_t samples)
        : corpus_{std::move(corpus)},
          first_{first},
          samples_{samples},
          fields_{TensorSpec{"tokens", {corpus_->context}, DType::i32},
                  TensorSpec{"targets", {corpus_->context}, DType::i32}} {
        ENSURE(first >= 0 && samples > 0 && first <= corpus_->samples() - samples);
    }

    [[nodiscard]] std::int64_t samples() const override { return samples_; }
    [[nodiscard]] std::span<const TensorSpec> fields() const override { return fields_; }

    void read(std::int64_t sample, std::size_t field, std::span<std::byte> row) const override {
        ENSURE(sample >= 0 && sample < samples_);
        ENSURE(field < fields_.size());
        ENSURE(static_cast<std::int64_t>(row.size()) == fields_[field].bytes());
        const std::vector<std::int64_t>& firsts = corpus_->first_samples;
        const auto after = std::upper_bound(firsts.begin(), firsts.end(), first_ + sample);
        const auto place = static_cast<std::size_t>(after - firsts.begin()) - 1;
        const auto shift = static_cast<std::int64_t>(field);  // tokens 0, targets 1
        const std::int64_t token = (first_ + sample - firsts[place]) * corpus_->context + shift;
        corpus_->sequences[place].copy(token, row);
    }

    [[nodiscard]] std::int64_t loss_terms(std::int64_t sample) const override {
        ENSURE(sample >= 0 && sample < samples_);
        return corpus_->context;
    }

  private:
    std::shared_ptr<const Corpus> corpus_;
    std::int64_t first_;
    std::int64_t samples_;
    std::array<TensorSpec, 2> fields_;
};

/// How many of the samples are split off. The product is rounded to double first, so 0.29 of 100
/// samples is 28.
std::int64_t split_off(double share, std::int64_t samples) {
    const auto split = static_cast<std::int64_t>(std::floor(share * static_cast<double>(samples)));
    if (share > 0 && split == 0) {
        throw DataError{"the validation set is empty (data.validation_share=" + to_text(share) +
                        " of " + std::to_string(samples) +
                        " samples is less than one), raise the share, set it to 0, or name "
                        "data.validation"};
    }
    ENSURE(split < samples);  // so that training has samples: share < 1, also after rounding
    return split;
}

}  // namespace

Datasets open_datasets(const DataConfig& config, std::int32_t context, std::int32_t vocabulary) {
    ENSURE(context > 0 && vocabulary > 0);
    ENSURE(config.validation_share >= 0 && config.validation_share < 1);
    if (config.train.empty()) {
        throw ConfigError{
            "data.train is empty (there is nothing to train on), name a file or a "
            "pattern for several"};
    }
    if (config.format == Format::bytes && vocabulary < 256) {
        throw ConfigError{"model.vocabulary=" + std::to_string(vocabulary) +
                          " (data.format=bytes needs 256, one per byte), raise model.vocabulary"};
    }
    const auto corpus = std::make_shared<const Corpus>(
        open_corpus(config.train, "data.train", config.format, context));
    Datasets datasets;
    std::int64_t train_samples = corpus->samples();
    if (!config.validation.empty()) {
        const auto validation = std::make_shared<const Corpus>(
            open_corpus(config.validation, "data.validation", config.format, context));
        (void)scan(*validation, vocabulary, 0);
        datasets.validation = std::make_unique<TextDataset>(validation, 0, validation->samples());
    } else if (const std::int64_t split = split_off(config.validation_share, corpus->samples());
               split > 0) {
        train_samples -= split;
        datasets.validation = std::make_unique<TextDataset>(corpus, train_samples, split);
    }
    datasets.train_digest = scan(*corpus, vocabulary, train_samples);
    datasets.train = std::make_unique<TextDataset>(corpus, 0, train_samples);
    return datasets;
}

}  // namespace rhizome::data
