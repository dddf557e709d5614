#include "state/file_header.hpp"

#include "core/digest.hpp"
#include "core/text.hpp"

namespace rhizome::state {
namespace {

StateError newer_version(const std::string& path, std::int64_t version) {
    StateError error{path, "header",
                     "written by a newer rhizome: format " + std::to_string(version) +
                         ", this one reads " + std::to_string(format_version),
                     "use that rhizome"};
    error.is_newer = true;
    return error;
}

constexpr std::string_view magic = "rhizome state ";

/// All that `check` covers.
std::string lines_of(const FileHeader& header) {
    std::string text{magic};
    text += name_of(header.kind);
    text += " " + std::to_string(format_version) + "\n";
    if (header.kind == FileKind::share) text += "writer " + std::to_string(header.writer) + "\n";
    text += "steps " + std::to_string(header.steps) + "\n";
    text += "bytes " + std::to_string(header.bytes) + "\n";
    text += "structure " + std::to_string(header.structure) + "\n";
    text += "digest " + header.digest + "\n";
    return text;
}

/// Takes the lines one by one. What is no such line gives something that is written in another
/// way, so comparing with the only right way finds it.
class Lines {
  public:
    explicit Lines(std::string_view text) : rest_{text} {}

    /// The value of a line `key value`.
    std::string_view value(std::string_view key) {
        const std::size_t end = rest_.find('\n');
        std::string_view line = rest_.substr(0, end);
        rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
        if (!line.starts_with(key)) return {};
        line.remove_prefix(key.size());
        return line.starts_with(' ') ? line.substr(1) : std::string_view{};
    }
    std::int64_t number(std::string_view key) { return parse_integer(value(key)).value_or(-1); }
    std::int32_t small_number(std::string_view key) {
        const std::int64_t wide = number(key);
        return wide <= INT32_MAX ? static_cast<std::int32_t>(std::max<std::int64_t>(wide, -1)) : -1;
    }

  private:
    std::string_view rest_;
};

[[noreturn]] void fail(const std::string& path, const std::string& reason,
                       const std::string& hint = damaged_hint) {
    throw StateError{path, "header", reason, hint};
}

/// The first line.
void check_kind(std::string_view text, FileKind kind, const std::string& path) {
    if (!text.starts_with(magic)) {
        fail(path, "begins like no file of a state");
    }
    std::string_view line = text.substr(0, text.find('\n'));
    line.remove_prefix(magic.size());
    const std::size_t blank = line.find(' ');
    const std::string_view word = line.substr(0, blank);
    const FileKind other = kind == FileKind::share ? FileKind::index : FileKind::share;
    if (word == name_of(other)) {
        fail(path, "this is a state's " + std::string{name_of(other)} + ", not its " +
                       std::string{name_of(kind)});
    }
    if (word != name_of(kind) || blank == std::string_view::npos) fail(path, "is damaged");
    const auto version = parse_integer(line.substr(blank + 1));
    if (!version) fail(path, "is damaged");
    if (*version > format_version) {
        throw newer_version(path, *version);
    }
}

}  // namespace

std::string_view name_of(FileKind kind) { return kind == FileKind::share ? "share" : "index"; }

std::string check_of(const FileHeader& header) {
    const std::string lines = lines_of(header);
    Digest digest;
    digest.add(std::as_bytes(std::span{lines}));
    return digest.hex();
}

std::string text_of(const FileHeader& header) {
    std::string text = lines_of(header) + "check " + check_of(header) + "\n";
    ENSURE(text.size() <= header_bytes);
    text.resize(header_bytes, '\n');
    return text;
}

FileHeader parse_header(std::string_view text, FileKind kind, const std::string& path) {
    ENSURE(text.size() == header_bytes);
    check_kind(text, kind, path);
    FileHeader header{.kind = kind};
    Lines lines{text.substr(text.find('\n') + 1)};
    if (kind == FileKind::share) header.writer = lines.small_number("writer");
    header.steps = lines.small_number("steps");
    header.bytes = lines.number("bytes");
    header.structure = lines.number("structure");
    header.digest = lines.value("digest");
    if (header.digest.size() != 32 || text_of(header) != text) fail(path, "is damaged");
    // From here on it says what its writer meant, unless somebody forged it.
    const bool possible = header.writer >= 0 && header.steps >= 0 &&
                          header.structure >= header_bytes &&
                          header.structure <= structure_bytes_max &&
                          (kind == FileKind::share ? header.bytes >= header.structure
                                                   : header.bytes == header.structure);
    if (!possible) fail(path, "has impossible numbers");
    return header;
}

FileStart read_start(FileSystem& files, const std::string& path, FileKind kind) {
    FileStart start;
    start.file = files.open(path);
    const std::int64_t bytes = start.file->bytes();
    if (bytes < header_bytes) {
        fail(path, "the file has " + counted(bytes, "byte") + ", not even a header's " +
                       std::to_string(header_bytes));
    }
    std::string text(header_bytes, ' ');
    start.file->read_at(0, std::as_writable_bytes(std::span{text}));
    start.header = parse_header(text, kind, path);
    start.check = check_of(start.header);
    if (bytes != start.header.bytes) {
        fail(path, "the file has " + counted(bytes, "byte") + " and should have " +
                       std::to_string(start.header.bytes));
    }
    start.bytes.resize(static_cast<std::size_t>(start.header.structure));
    start.file->read_at(0, start.bytes);
    Digest digest;
    digest.add(std::span{start.bytes}.subspan(header_bytes));
    if (digest.hex() != start.header.digest) {
        throw StateError{path, "structure", "differs from its digest", damaged_hint};
    }
    return start;
}

}  // namespace rhizome::state
