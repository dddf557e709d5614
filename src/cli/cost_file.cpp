#include "cli/cost_file.hpp"

#include "cli/text_file.hpp"
#include "core/error.hpp"

namespace rhizome::cli {

schedule::CostTable read_cost_table(const std::string& where, const std::string& path,
                                    const LayerTable* network) {
    const std::string text = read_text_file(where, path, "name one that `rhizome profile` made");
    const schedule::CostTable table = [&] {
        try {
            return schedule::parse_cost_table(text);
        } catch (const ConfigError& error) {
            throw ConfigError{where + ": " + error.what()};
        }
    }();
    if (network == nullptr) return table;
    if (const auto misfit = schedule::find_misfit(table, *network)) {
        throw ConfigError{where + " (" + *misfit +
                          "), measure this network, with this microbatch_size: rhizome profile"};
    }
    return table;
}

}  // namespace rhizome::cli
