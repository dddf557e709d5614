#include "cli/state_options.hpp"
#include "core/error.hpp"

namespace rhizome::cli {
namespace {

constexpr std::string_view list_help = R"(usage: rhizome-state ls RUN [--json]

Lists the states of a run: steps, when they were saved, their size, and whether they are whole. For
that their index and the structure of every share are checked; `verify` reads the values as well.
Hidden folders of saves that are under way, or did not come to their end, are named too.

  RUN      a run's folder, or the folder of its states

--json: {"folder", "states": [{"path", "steps", "saved_at", "bytes", "whole", "problem", "newest"}],
"leftovers": [{"path", "bytes"}]}, by steps. `newest` is true for the newest that is whole, from
which a run would go on; `problem` is null for one that is whole.

example:
  rhizome-state ls runs/first
)";

constexpr std::string_view show_help = R"(usage: rhizome-state show STATE [TENSOR] [--json]

What a state says of itself: how far it is trained, with which keys, on what, and its tensors with
the writers that stored them. With a tensor's name, numbers about its values: parameters and both
moments of the optimizer.

  STATE    a state, or a run's folder, which means its newest whole state
  TENSOR   as the table calls it: block.0/attention.weight

--json of a state: {"path", "steps", "samples", "samples_per_pass", "saved_at", "program",
"fingerprint", "mathematics_digest", "data_digest", "digest", "mathematics": {KEY: TEXT}, "layout",
"bytes", "shares", "parameters", "chunk_elements", "events", "tensors": [{"name", "shape", "type",
"elements", "chunks", "writers"}], "ties": {USE: OWNER}}
--json of a tensor: {"path", "steps", "tensor": {"name", "shape", "type", "elements"}, "chunks",
"values": {"parameter": {"least", "largest", "mean", "rms", "non_finite", "first"}, "first_moment",
"second_moment"}}. The first four are of finite elements, and null if there are none.

examples:
  rhizome-state show runs/first
  rhizome-state show runs/first/states/step-00000500 embedding/token
)";

constexpr std::string_view verify_help = R"(usage: rhizome-state verify STATE|RUN [--json]

Reads every byte of a state, or of all states of a run, and compares it with the digests that are
stored with it. Each fault is listed with its place. `weights` is the digest of all values, as a run
shows it in its last table: two states with the same are equal bit for bit.

--json: {"whole", "states": [{"path", "whole", "bytes", "weights", "faults": [{"file", "place",
"reason"}]}]}. `weights` is null where there are faults.

exit codes: 0 all whole, 3 damaged

example:
  rhizome-state verify runs/first
)";

constexpr std::string_view diff_help =
    R"(usage: rhizome-state diff A B [--tolerance NUMBER] [--only VALUE] [--json]

Compares the values of two states, bit for bit or within a tolerance, and tells for each tensor how
many elements differ, how much, and where. They may have been written by other layouts, in other
chunks. Chunks with equal digests are not read. What else the states say of themselves (steps, keys)
is told, but does not make them different.

  A, B                 states, or runs' folders, which means their newest whole states
  --tolerance NUMBER   >= 0: elements differ if they are farther apart than that; NaNs are equal
  --only VALUE         parameter, first_moment or second_moment; default: all three

The absolute difference is |a - b|, the relative one is that by the larger of |a| and |b|; the table
shows the largest of each. A tensor that one of the two lacks, or has in another shape or type,
makes them different.

--json: {"a", "b", "tolerance", "equal", "values", "values_read", "facts": [{"name", "a", "b"}],
"tensors": [{"name", "value", "mismatch", "shape", "differing", "largest_absolute",
"largest_relative", "largest_at", "first_at"}]}. Places count elements, row by row. `mismatch` says
why no numbers were compared, else it is null. Infinite differences are null.

exit codes: 0 equal, 9 different

examples:
  rhizome-state diff runs/first runs/second
  rhizome-state diff runs/first runs/second --only parameter --tolerance 1e-6
)";

constexpr std::string_view history_help = R"(usage: rhizome-state history STATE|RUN [--json]

What happened to the training that led to a state, through all restarts: when it was started, by how
many, what it went on from, what was saved or could not be. Of a run its newest whole state is read.

--json: {"path", "history": [{"time", "steps", "kind", "text"}]}

example:
  rhizome-state history runs/first
)";

constexpr std::string_view merge_help = R"(usage: rhizome-state merge STATE OUT [--json]

Writes a state again with all its chunks in one share. Nothing else changes: `verify` shows the same
weights for both, and a run goes on from either. It is written aside and gets its name when it is
whole. Takes as much memory as the state is large.

  STATE    a state, or a run's folder, which means its newest whole state
  OUT      must not be there yet

--json: {"from", "to", "what", "steps", "parameters", "bytes"}

example:
  rhizome-state merge runs/first/states/step-00000500 first-500
)";

constexpr std::string_view prune_help =
    R"(usage: rhizome-state prune RUN [--keep NUMBER] [--keep-every STEPS] [--dry-run] [--json]

Removes states that the rule does not keep. Only those that are whole count (as `ls` sees it), so
the newest whole one always stays. Damaged ones are left alone; look at them, and remove them by
hand. A run that goes on is refused; its keys save.keep and save.keep_every prune on the way.

  RUN                  a run's folder, or the folder of its states
  --keep NUMBER        of the newest that stay, >= 1; default: 3
  --keep-every STEPS   those whose steps are a multiple stay as well; 0: none; default: 0
  --dry-run            tells what it would do

--json: {"folder", "keep", "keep_every", "dry_run", "removed": [...], "kept": [...], "damaged":
[...]}, each a list of states as `ls` has it

example:
  rhizome-state prune runs/first --keep 2 --keep-every 1000 --dry-run
)";

constexpr std::string_view export_help =
    R"(usage: rhizome-state export STATE FILE.safetensors [--raw] [--json]

Writes the weights of a GPT to a safetensors file, under the names and in the layout that Hugging
Face's libraries use for GPT-2. The metadata have what the state says of itself: rhizome.steps,
rhizome.mathematics, rhizome.heads and others.

  STATE    a state, or a run's folder, which means its newest whole state
  FILE     must not be there yet
  --raw    our own names and layouts, of any network, and the optimizer's moments too: `import`
           makes the same state of it again

--json: {"from", "to", "what", "steps", "parameters", "bytes"}

example:
  rhizome-state export runs/first first.safetensors
)";

constexpr std::string_view import_help =
    R"(usage: rhizome-state import FILE.safetensors OUT [--heads NUMBER] [--config FILE]
                            [--KEY VALUE]... [--json]

Makes a state of a GPT-2 in a safetensors file: 0 steps, its weights, and moments that are zero. A
run begins with it by `rhizome train --from OUT`, which needs the same mathematics keys: give here
what you will give there. Keys win over each other in this order: what the metadata say, the file
named by --config, the environment, flags; the shapes decide about model.blocks, model.channels,
model.context, model.vocabulary, model.tied and precision, and keys must not say otherwise. With a
vocabulary that is not 256, data.format is tokens where nobody says it.

Of a file that `export --raw` has written, the state that was exported comes back, steps and all;
keys are not taken then.

  OUT              must not be there yet; the folder of the state
  --heads NUMBER   model.heads, where the file does not say it; config.json of a published model
                   has it as n_head
  --KEY VALUE      as `rhizome train --help` lists them

--json: {"from", "to", "what", "steps", "parameters", "bytes"}

example:
  rhizome-state import model.safetensors gpt2-0 --heads 12 --config configs/mine.conf
)";

}  // namespace

std::string state_help_text() {
    return R"(rhizome-state - looks at stored states of a training, compares and converts them

usage:
  rhizome-state ls RUN                        lists a run's states, and says which are whole
  rhizome-state show STATE [TENSOR]           keys, digests, tensors; or a tensor's values
  rhizome-state verify STATE|RUN              reads every byte; names what is damaged
  rhizome-state diff A B                      equal, bit for bit or within a tolerance, or where not
  rhizome-state history STATE|RUN             what happened to the training, through all restarts
  rhizome-state merge STATE OUT               the same state in one piece
  rhizome-state prune RUN                     removes what a rule does not keep
  rhizome-state export STATE FILE.safetensors the weights, as Hugging Face names them for GPT-2
  rhizome-state import FILE.safetensors OUT   the way back
  rhizome-state VERB --help                   its flags, and what --json prints
  rhizome-state --help, --version             this page, the version

STATE is the folder of a state, RUN/states/step-00000500, or that of a run, which means the newest
state of it that is whole; which one that is goes to standard error. It needs neither MPI nor an
accelerator, and works on any machine that sees the files. With --json every verb prints one JSON
document instead of a table.

examples:
  rhizome-state verify runs/first
  rhizome-state diff runs/first runs/second --tolerance 1e-6

exit codes:
  0  done; with diff: equal; with verify: whole
  1  a bug in rhizome: please report it
  2  the command line is wrong, or something cannot be written there
  3  a state or file is missing, damaged, or none of the wanted kind
  9  with diff: the values are not equal
)";
}

std::string state_help_text(StateVerb verb) {
    switch (verb) {
        case StateVerb::list:
            return std::string{list_help};
        case StateVerb::show:
            return std::string{show_help};
        case StateVerb::verify:
            return std::string{verify_help};
        case StateVerb::diff:
            return std::string{diff_help};
        case StateVerb::history:
            return std::string{history_help};
        case StateVerb::merge:
            return std::string{merge_help};
        case StateVerb::prune:
            return std::string{prune_help};
        case StateVerb::export_file:
            return std::string{export_help};
        case StateVerb::import_file:
            return std::string{import_help};
    }
    ENSURE(false);
    return {};
}

}  // namespace rhizome::cli
