#include "world/run_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "world/run_files.hpp"

namespace rhizome::world {
namespace {

constexpr std::string_view begin = "run ";
constexpr std::size_t bytes_max = 4096;

}  // namespace

RunLock::~RunLock() {
    if (file_ >= 0) ::close(file_);  // which lets go
}

RunLock::RunLock(RunLock&& other) noexcept : file_{std::exchange(other.file_, -1)} {}

RunLock& RunLock::operator=(RunLock&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
}

std::error_code RunLock::open(const std::string& path) {
    ENSURE(file_ < 0);
    // NFS makes byte-range locks of these, and wants a file to be writable for an exclusive one.
    file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    return file_ < 0 ? last_error() : std::error_code{};
}

// What these change is outside this object, and yet its.
// NOLINTBEGIN(readability-make-member-function-const)

std::error_code RunLock::hold(Kind kind) {
    ENSURE(file_ >= 0);
    const int how = kind == Kind::shared ? LOCK_SH : LOCK_EX;
    while (::flock(file_, how | LOCK_NB) != 0) {
        if (errno == EINTR) continue;
        const std::error_code problem = last_error();
        ::flock(file_, LOCK_UN);
        return problem;
    }
    return {};
}

std::error_code RunLock::set_name(const std::string& name) {
    ENSURE(file_ >= 0);
    const std::string text = std::string{begin} + name + "\n";
    ENSURE(text.size() <= bytes_max && name.find('\n') == std::string::npos);
    if (::ftruncate(file_, 0) != 0) return last_error();
    const ssize_t count = ::pwrite(file_, text.data(), text.size(), 0);
    if (count < 0) return last_error();
    if (static_cast<std::size_t>(count) != text.size()) {
        return std::make_error_code(std::errc::no_space_on_device);
    }
    // Ranks on other hosts read it while it is still open here.
    return ::fsync(file_) == 0 ? std::error_code{} : last_error();
}

// NOLINTEND(readability-make-member-function-const)

std::string RunLock::name() const {
    ENSURE(file_ >= 0);
    std::array<char, bytes_max> bytes{};
    const ssize_t count = ::pread(file_, bytes.data(), bytes.size(), 0);
    if (count <= 0) return "";
    std::string_view text{bytes.data(), static_cast<std::size_t>(count)};
    if (!text.starts_with(begin) || !text.ends_with('\n')) return "";
    text.remove_prefix(begin.size());
    text.remove_suffix(1);
    return std::string{text};
}

bool is_taken(const std::error_code& problem) {
    return problem == std::errc::operation_would_block;
}

bool has_no_locks(const std::error_code& problem) {
    return problem == std::errc::no_lock_available ||
           problem == std::errc::function_not_supported ||
           problem == std::errc::operation_not_supported;
}

}  // namespace rhizome::world
