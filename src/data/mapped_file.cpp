#include "data/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/error.hpp"

namespace rhizome::data {
namespace {

class Descriptor {
  public:
    explicit Descriptor(int value) : value_{value} {}
    ~Descriptor() {
        if (value_ >= 0) ::close(value_);  // opened for reading: nothing can be lost
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;

    [[nodiscard]] int get() const { return value_; }

  private:
    int value_;
};

DataError unusable(const std::string& path, std::string_view what, const std::string& reason,
                   const std::string& hint) {
    return DataError{"data file " + path + " cannot be " + std::string{what} + " (" + reason +
                     "), " + hint};
}

DataError failed_call(const std::string& path, std::string_view what, int error) {
    std::string hint = "check the file and its file system";
    if (error == ENOENT || error == ENOTDIR) hint = "check the path";
    if (error == EACCES || error == EPERM) hint = "make it readable for this user";
    return unusable(path, what, std::generic_category().message(error), hint);
}

}  // namespace

MappedFile::MappedFile(const std::string& path) {
    // Without O_NONBLOCK, opening a named pipe waits for a writer instead of being refused below.
    const Descriptor descriptor{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (descriptor.get() < 0) throw failed_call(path, "opened", errno);
    struct stat facts{};
    if (::fstat(descriptor.get(), &facts) != 0) throw failed_call(path, "read", errno);
    if (S_ISDIR(facts.st_mode)) {
        throw unusable(path, "read", "it is a folder", "name a file, or a pattern for several");
    }
    if (!S_ISREG(facts.st_mode)) {
        throw unusable(path, "read", "it is no regular file", "copy its content into one");
    }
    if (facts.st_size == 0) throw unusable(path, "used", "it is empty", "name one with content");

    const auto size = static_cast<std::size_t>(facts.st_size);
    void* const start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.get(), 0);
    if (start == MAP_FAILED) throw failed_call(path, "mapped into memory", errno);
    bytes_ = {static_cast<std::byte*>(start), size};
}

MappedFile::~MappedFile() {
    if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_{std::exchange(other.bytes_, {})} {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    MappedFile taken{std::move(other)};
    std::swap(bytes_, taken.bytes_);
    return *this;
}

}  // namespace rhizome::data
