#include "cli/help.hpp"

#include <algorithm>
#include <string_view>

#include "cli/keys.hpp"
#include "core/text.hpp"

namespace rhizome::cli {
namespace {

constexpr std::size_t columns = 100;

/// `text` broken between words, each line after the first set in by `indent`; the first starts
/// there already.
std::string wrapped(std::string_view text, std::size_t indent) {
    std::string result;
    std::size_t column = indent;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(' '), text.size());
        const std::string_view word = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (column > indent && column + 1 + word.size() > columns) {
            result += "\n" + std::string(indent, ' ');
            column = indent;
        }
        if (column > indent) result += ' ';
        column += word.size() + (column > indent ? 1 : 0);
        result += word;
    }
    return result;
}

std::string key_list(KeyKind kind) {
    constexpr std::size_t indent = 34;
    std::string list;
    for (const Key& key : keys()) {
        if (key.kind != kind) continue;
        list += padded("  " + key.name, indent - 1) + " " +
                wrapped(key.takes + "; default: " + key.default_text, indent) + "\n" +
                std::string(indent, ' ') + wrapped(key.help, indent) + "\n";
    }
    return list;
}

std::string size_list() {
    std::string list = "  name         parameters  blocks  channels  heads  context  vocabulary\n";
    for (const model::GptSize& size : model::gpt_sizes) {
        const std::string count = to_short(static_cast<double>(parameters(size)));
        list += padded("  " + std::string{size.name}, 15) + right_aligned(count, 10) +
                right_aligned(std::to_string(size.blocks), 8) +
                right_aligned(std::to_string(size.channels), 10) +
                right_aligned(std::to_string(size.heads), 7) +
                right_aligned(std::to_string(size.context), 9) +
                right_aligned(std::to_string(size.vocabulary), 12) + "\n";
    }
    return list;
}

}  // namespace

std::string help_text() {
    return R"(rhizome - trains deep networks, with the same weights however the work is divided

usage:
  rhizome run -n RANKS [--KEY VALUE]...            train on many ranks, and survive losing some
  rhizome stop FOLDER                              end such a run in order
  rhizome save FOLDER                              have it save a state
  rhizome train [--config FILE] [--KEY VALUE]...   train in this process
  rhizome generate FROM --prompt TEXT              write text with what was trained
  rhizome profile [--output FILE] [--KEY VALUE]... measure what each layer costs on this host
  rhizome train --help                             all keys, with ranges and defaults
  rhizome run --help                               how runs begin, end and are found again
  rhizome stop --help                              how long it waits, and then
  rhizome save --help                              likewise
  rhizome generate --help                          what the text begins with, and how to go on
  rhizome profile --help                           what is measured, and what for
  rhizome --help                                   this page
  rhizome --version                                the version

examples:
  rhizome train --data.train book.txt --model.size gpt-0.8m --steps 500
  rhizome run -n 4 --data.train book.txt --model.size gpt-0.8m --steps 500

exit codes:
  0  done
  1  a bug in rhizome: please report it
  2  command line, configuration file or environment is wrong, or asks for more than the machine has
  3  a data or state file is missing, damaged or does not fit the configuration
  4  training diverged: loss, gradient or parameters are no longer finite
  5  a worker was lost, or did not answer within its deadline, and the run could not go on
  6  ended early because somebody asked for it
  7  the run's processes are gone and left no word of how it ended
  8  ended as it should, but its last state could not be saved
  9  two states were compared, and their values are not equal
)";
}

std::string train_help_text() {
    return R"(usage: rhizome train [--config FILE] [--digest] [--folder FOLDER] [--KEY VALUE]...

  --digest          prints a digest of every chunk of parameters and optimizer state at the end
  --folder FOLDER   of the run: not there yet, empty, or that of a run that has ended or died, which
                    is taken over. Then Ctrl-C, SIGTERM and SIGHUP end the run in order, after the
                    step under way (exit code 6; a second Ctrl-C kills it), and SIGUSR1 has it save
                    a state; `rhizome stop` and `rhizome save` do the same from elsewhere

Each key may be given in four places; the later wins over the earlier:
  1. its default
  2. the file named by --config, as `key = value`; a line `[model]` puts `model.` before the keys
     that follow it, and # starts a comment
  3. the environment: model.blocks is RHIZOME_MODEL_BLOCKS
  4. a flag: --model.blocks 4 or --model.blocks=4
A name that is no key is an error, in each of these places. So is a key given twice in one of them.

Mathematics keys decide the weights: two runs that agree in them and in the content of the training
data have the same weights after each step. A digest of them is printed at the start of a run.
)" + key_list(KeyKind::mathematics) +
           R"(
Layout keys say how the work is done, and for how long. The weights after a step do not depend on
them, but for what is in the data files that they name, and for the last bits that each kind of
device has of its own: the line `device` that a run prints tells its kind.
)" + key_list(KeyKind::layout) +
           R"(
Sizes for model.size; parameters are those with tied embeddings:
)" + size_list() +
           R"(
examples:
  rhizome train --data.train book.txt --model.size gpt-0.8m --steps 500
  RHIZOME_THREADS=8 rhizome train --config run.conf --optimizer.learning_rate 3e-4

where run.conf could be:
  data.train = shards/train_*.bin
  data.format = tokens
  [model]
  size = gpt2
  dropout = 0.1
)";
}

std::string run_help_text() {
    return R"(usage: rhizome run -n RANKS [--folder FOLDER] [--restarts N] [--mpirun PATH] [--digest]
                   [--KEY VALUE]...

Starts `rhizome train` on that many ranks by means of mpirun, and stays until the run has ended.
Ranks may be lost: the others go on, in another layout, and the weights are those of a calm run. A
run that nobody is left of is started again. Keys are those of `rhizome train --help`.

  -n N, --ranks N   1..65536
  --folder FOLDER   of the run, seen by all hosts: not there yet, empty, or that of a run that has
                    ended or died, which is taken over; default: a new one below runs/, named by
                    the time
  --restarts N      0..1000000, default: 3; how often a run that was lost as a whole is started
                    again, from its newest whole state; those after a newer state do not count
  --mpirun PATH     of an Open MPI with ULFM; default: RHIZOME_MPIRUN, then the one that this
                    program was built with

Ctrl-C, SIGTERM and SIGHUP end the run in order, after the step under way (exit code 6); a second
Ctrl-C kills it. A killed mpirun ends nothing: the ranks go on, and are waited for. If this program
is killed as well, `rhizome stop FOLDER` ends them. SIGUSR1 has the run save a state after the step
under way, like `rhizome save FOLDER`. What the ranks print passes through unchanged.

In the folder, `finished` says how the run ended, and that is the exit code. `rhizome --help` lists
them.

example:
  rhizome run -n 6 --folder runs/first --config run.conf --seed 2
)";
}

std::string stop_help_text() {
    return R"(usage: rhizome stop FOLDER [--within SECONDS | --now]

Ends a run of `rhizome run` in order, after the step under way, and waits for that. Processes of it
on this host that are left when the time is over are killed.

  FOLDER             of the run, as `rhizome run` tells it when it begins
  --within SECONDS   in (0, 1e6]; default: 60
  --now              kills at once

exit codes:
  0  the run has ended, now or before
  2  the command line is wrong, there is no run in FOLDER, or it cannot be written
  7  the run's processes are gone and left no word of how it ended, or it may go on on other hosts
)";
}

std::string save_help_text() {
    return R"(usage: rhizome save FOLDER [--within SECONDS]

Has a run save a state after the step under way, and waits until a state is there that is newer than
all before. The run goes on.

  FOLDER             of the run, as `rhizome run` tells it when it begins
  --within SECONDS   in (0, 1e6]; default: 600

exit codes:
  0  a newer state is there
  2  the command line is wrong, there is no run in FOLDER, or it cannot be written
  7  no newer state came in that time, or the run has ended without one
)";
}

std::string version_text() { return "rhizome " RHIZOME_VERSION "\n"; }

}  // namespace rhizome::cli
