// Where tests of runs have their folders, and what they start there.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>  // mkdtemp is POSIX, not C++
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace rhizome::world {

namespace fs = std::filesystem;
class RunFolderTest : public ::testing::Test {
  protected:
    RunFolderTest() : home_{::testing::TempDir() + "rhizome_run_XXXXXX"} {
        ENSURE(::mkdtemp(home_.data()) != nullptr);
    }
    ~RunFolderTest() override {
        std::error_code ignored;
        fs::remove_all(home_, ignored);
    }

    [[nodiscard]] std::string place(const std::string& name) const { return home_ + "/" + name; }
    void write(const std::string& name, const std::string& content) const {
        std::ofstream{place(name)} << content;
    }
    [[nodiscard]] std::string read(const std::string& name) const {
        std::ifstream file{place(name)};
        std::ostringstream content;
        content << file.rdbuf();
        return content.str();
    }

    [[nodiscard]] std::vector<std::string> names_in(const std::string& name) const {
        std::vector<std::string> names;
        for (const auto& entry : fs::directory_iterator{place(name)}) {
            names.push_back(entry.path().filename().string());
        }
        std::sort(names.begin(), names.end());
        return names;
    }

    std::string home_;
};

template <class Call>
std::string message_of(const Call& call) {
    try {
        static_cast<void>(call());
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "";
}

/// A process that sleeps until it is killed.
class Sleeper {
  public:
    Sleeper() : pid_{fork()} {
        ENSURE(pid_ >= 0);
        while (pid_ == 0) pause();
    }
    ~Sleeper() { end(); }
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;

    void end() {
        if (pid_ == 0) return;
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
        pid_ = 0;
    }
    [[nodiscard]] pid_t pid() const { return pid_; }

  private:
    pid_t pid_;
};

}  // namespace rhizome::world
