#include "cli/state_diff.hpp"

#include <algorithm>
#include <map>

#include "cli/key_lines.hpp"
#include "cli/state_tables.hpp"

namespace rhizome::cli {
namespace {

void add_fact(std::vector<FactDifference>& facts, const std::string& name, const std::string& a,
              const std::string& b) {
    if (a != b) facts.push_back({name, a, b});
}

void add_keys(std::vector<FactDifference>& facts, const std::string& a, const std::string& b) {
    const auto in_a = parse_key_lines(a);
    const auto in_b = parse_key_lines(b);
    std::map<std::string, std::string> all = in_a;
    all.insert(in_b.begin(), in_b.end());
    for (const auto& entry : all) {
        const auto value_in = [&](const std::map<std::string, std::string>& keys) {
            const auto found = keys.find(entry.first);
            return found == keys.end() ? std::string{} : found->second;
        };
        add_fact(facts, entry.first, value_in(in_a), value_in(in_b));
    }
}

std::vector<FactDifference> compare_facts(const state::StateIndex& a, const state::StateIndex& b) {
    std::vector<FactDifference> facts;
    add_fact(facts, "trained steps", std::to_string(a.facts.steps), std::to_string(b.facts.steps));
    add_fact(facts, "trained samples", std::to_string(a.facts.samples),
             std::to_string(b.facts.samples));
    add_fact(facts, "training data", a.facts.data_digest, b.facts.data_digest);
    add_fact(facts, "computed by", a.facts.fingerprint, b.facts.fingerprint);
    add_fact(facts, "elements of a chunk", std::to_string(a.table.chunk_elements),
             std::to_string(b.table.chunk_elements));
    add_keys(facts, a.facts.mathematics, b.facts.mathematics);
    // Imported ones have none, which is no difference in any key.
    const bool both = !a.facts.layout.empty() && !b.facts.layout.empty();
    if (both) add_keys(facts, a.facts.layout, b.facts.layout);
    return facts;
}

/// One value of one tensor, chunk by chunk; reads a chunk when its elements are asked for.
class Cursor {
  public:
    Cursor(state::StateReader& reader, std::int32_t tensor, state::Value value)
        : reader_{reader}, tensor_{tensor}, value_{value} {}

    /// The chunk that has this element.
    void move_to(std::int64_t element) {
        const std::int64_t elements = table().chunk_elements;
        const auto chunk = static_cast<std::int32_t>(element / elements);
        if (chunk == chunk_.chunk) return;
        chunk_ = {tensor_, chunk};
        bytes_.clear();
    }
    [[nodiscard]] std::int64_t begin() const { return table().first_element_of(chunk_); }
    [[nodiscard]] std::int64_t end() const { return begin() + table().elements_of(chunk_); }
    [[nodiscard]] std::array<std::byte, 16> digest() const {
        const auto digest = reader_.share_of(chunk_).digest_of(chunk_, value_);
        ENSURE(digest.has_value());
        return *digest;
    }
    [[nodiscard]] std::span<const std::byte> elements(std::int64_t first, std::int64_t last) {
        if (bytes_.empty()) {
            bytes_.resize(static_cast<std::size_t>(table().bytes_of(chunk_)));
            reader_.read(chunk_, value_, bytes_);
        }
        const std::int64_t size = table().bytes_of(chunk_) / table().elements_of(chunk_);
        return std::span{bytes_}.subspan(static_cast<std::size_t>((first - begin()) * size),
                                         static_cast<std::size_t>((last - first) * size));
    }

  private:
    [[nodiscard]] const state::StoredTable& table() const { return reader_.index().table; }

    state::StateReader& reader_;
    std::int32_t tensor_;
    state::Value value_;
    state::StoredChunk chunk_{0, -1};
    std::vector<std::byte> bytes_;  // empty: not read yet
};

struct Compared {
    Difference numbers;
    std::int64_t read;  // elements
};

Compared compare_tensor(Cursor a, Cursor b, const state::StoredTensor& tensor,
                        std::optional<double> tolerance) {
    Compared compared{Difference{tolerance}, 0};
    const std::int64_t elements = tensor.shape.elements();
    for (std::int64_t at = 0; at < elements;) {
        a.move_to(at);
        b.move_to(at);
        const std::int64_t end = std::min(a.end(), b.end());
        const bool same_piece = a.begin() == b.begin() && a.end() == b.end();
        if (!same_piece || a.digest() != b.digest()) {
            compared.numbers.add(a.elements(at, end), b.elements(at, end), tensor.dtype, at);
            compared.read += end - at;
        }
        at = end;
    }
    return compared;
}

using Places = std::map<std::string, std::int32_t>;

Places places_of(const state::StoredTable& table) {
    Places places;
    for (const state::StoredTensor& tensor : table.tensors) {
        places.emplace(tensor.name, static_cast<std::int32_t>(places.size()));
    }
    return places;
}

std::string shape_words(const state::StoredTensor& tensor) {
    std::string text;
    for (std::size_t d = 0; d < tensor.shape.dimensions(); ++d) {
        text += (d == 0 ? "" : ", ") + std::to_string(tensor.shape[d]);
    }
    return dtype_text(tensor.dtype) + " (" + text + ")";
}

std::string mismatch_of(const state::StoredTensor& a, const state::StoredTensor& b) {
    if (a.shape == b.shape && a.dtype == b.dtype) return "";
    return shape_words(a) + " in A, " + shape_words(b) + " in B";
}

}  // namespace

DiffReport compare_states(state::StateReader& a, state::StateReader& b, const DiffRule& rule) {
    DiffReport report{.a = a.path(),
                      .b = b.path(),
                      .tolerance = rule.tolerance,
                      .facts = compare_facts(a.index(), b.index())};
    const Places in_b = places_of(b.index().table);
    const auto& tensors = a.index().table.tensors;
    const auto& others = b.index().table.tensors;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        const state::StoredTensor& tensor = tensors[t];
        const auto other = in_b.find(tensor.name);
        const std::string mismatch =
            other == in_b.end()
                ? "in A only"
                : mismatch_of(tensor, others[static_cast<std::size_t>(other->second)]);
        for (const state::Value value : rule.values) {
            report.values += tensor.shape.elements();
            TensorDifference difference{
                .name = tensor.name, .shape = tensor.shape, .value = value, .mismatch = mismatch};
            if (mismatch.empty()) {
                const Compared compared =
                    compare_tensor({a, static_cast<std::int32_t>(t), value},
                                   {b, other->second, value}, tensor, rule.tolerance);
                report.values_read += compared.read;
                if (compared.numbers.differing() == 0) continue;
                difference.numbers = compared.numbers;
            }
            report.tensors.push_back(std::move(difference));
            if (!mismatch.empty()) break;  // it holds for all values
        }
    }
    const Places in_a = places_of(a.index().table);
    for (const state::StoredTensor& tensor : others) {
        if (in_a.contains(tensor.name)) continue;
        report.tensors.push_back({.name = tensor.name,
                                  .shape = tensor.shape,
                                  .value = rule.values.front(),
                                  .mismatch = "in B only"});
    }
    return report;
}

}  // namespace rhizome::cli
