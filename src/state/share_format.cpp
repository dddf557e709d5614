#include "state/share_format.hpp"

#include "core/digest.hpp"
#include "state/hdf5_objects.hpp"

namespace rhizome::state {

std::string write_start(File& file, FileHeader header, const Image& image) {
    const auto structure = std::span{image.bytes}.subspan(header_bytes);
    Digest digest;
    digest.add(structure);
    header.bytes = image.allocated;
    header.structure = static_cast<std::int64_t>(image.bytes.size());
    header.digest = digest.hex();
    file.write_at(header_bytes, structure);
    const std::string text = text_of(header);
    file.write_at(0, std::as_bytes(std::span{text}));
    file.sync();
    return check_of(header);
}

void check_format(hid_t root, std::string_view format) {
    if (read_words(root, "format") != format) throw Hdf5Error{"attribute format is another"};
    if (read_int32(root, "version") != format_version) {
        throw Hdf5Error{"attribute version is another"};
    }
}

}  // namespace rhizome::state
