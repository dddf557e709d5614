// Whatever is in a configuration file, it is refused with one line in the form of the house, or
// gives a configuration whose printed form gives the same one.
#include "cli/options.hpp"
#include "fuzz/target.hpp"

namespace rhizome::fuzz {
namespace {

cli::RunConfig parse(const std::string& content) {
    return cli::parse_run_config({"--config=run.conf"}, {},
                                 [&](const std::string& /*path*/) { return content; });
}

}  // namespace

std::vector<std::string> seeds() {
    return {"data.train = book.txt\n",
            "data.train = 'shards/*.bin'\ndata.format = tokens\nseed = 18446744073709551615\n"
            "[model]\nsize = gpt2\ndropout = 0.1\n# a comment\n[optimizer]\nlearning_rate = 3e-4\n",
            "pipelines = 3,2\ncut = 0-1,2,3-4\nstyle = zb-h1\nowners = all\nlanes = 2\n"
            "microbatches = 4\n[data]\ntrain = x\n[bounds]\nwait_s = 2000\n"};
}

void mend(std::string& /*input*/) {}

}  // namespace rhizome::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rhizome;
    try {
        const std::string content(reinterpret_cast<const char*>(data), size);
        const cli::RunConfig config = fuzz::parse(content);
        ENSURE(fuzz::parse(to_text(config)) == config);
        fuzz::note(fuzz::Outcome::accepted);
    } catch (const ConfigError& error) {
        fuzz::note_refusal(error);
    }
    return 0;
}
