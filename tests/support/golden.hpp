// Reads the golden numbers that tests/golden/gpt_numpy.py made: records of a name, a count and that
// many numbers.
#pragma once

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace rhizome::tests {

using Golden = std::map<std::string, std::vector<double>>;

inline Golden read_golden(const std::string& file) {
    std::ifstream in{std::string{RHIZOME_TESTS} + "/golden/" + file};
    EXPECT_TRUE(in.is_open()) << file;
    std::stringstream text;
    for (std::string line; std::getline(in, line);) {
        if (!line.starts_with('#')) text << line << '\n';
    }
    Golden golden;
    std::string name;
    std::size_t count = 0;
    while (text >> name >> count) {
        std::vector<double>& numbers = golden[name];
        for (std::size_t i = 0; i < count; ++i) {
            std::string number;
            text >> number;
            numbers.push_back(std::stod(number));
        }
    }
    return golden;
}

}  // namespace rhizome::tests
