#include "cli/run_config.hpp"

#include <algorithm>

#include "cli/keys.hpp"
#include "core/digest.hpp"

namespace rhizome::cli {
namespace {

void add_group(std::string& text, const RunConfig& config, KeyKind kind,
               std::string_view without = "") {
    for (const Key& key : keys()) {
        if (key.kind != kind || key.name == without) continue;
        const std::string value = key.print(config);
        if (!value.empty()) text += key.name + " = " + value + "\n";
    }
}

RunConfig resolved(const RunConfig& config) {
    RunConfig result = config;
    if (!result.data.validation.empty()) result.data.validation_share = 0;
    return result;
}

}  // namespace

std::string to_text(const RunConfig& config) {
    std::string text = "# Mathematics: the weights after a step depend on these keys alone.\n";
    add_group(text, config, KeyKind::mathematics);
    text += "\n# Layout: how the run is done. The weights do not depend on it.\n";
    add_group(text, config, KeyKind::layout);
    return text;
}

std::string mathematics_keys(const RunConfig& config) {
    std::string text;
    add_group(text, resolved(config), KeyKind::mathematics, size_key);
    return text;
}

std::string layout_keys(const RunConfig& config) {
    std::string text;
    add_group(text, config, KeyKind::layout);
    return text;
}

std::string mathematics_digest(const RunConfig& config, std::string_view train_digest) {
    const RunConfig all = resolved(config);

    // By name, so that the order of the help is free.
    std::vector<const Key*> sorted;
    for (const Key& key : keys()) {
        if (key.kind == KeyKind::mathematics && key.name != size_key) sorted.push_back(&key);
    }
    std::sort(sorted.begin(), sorted.end(),
              [](const Key* a, const Key* b) { return a->name < b->name; });
    Digest digest;
    for (const Key* key : sorted) {
        digest.add_text(key->name);
        digest.add_text(key->print(all));
    }
    digest.add_text("data.train content");
    digest.add_text(train_digest);
    return digest.hex();
}

}  // namespace rhizome::cli
