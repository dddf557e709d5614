// The trainer against an independent NumPy implementation of docs/MATHEMATICS.md: losses, every
// gradient and ten clipped AdamW steps, in double precision.
#include <algorithm>
#include <cmath>

#include "data/sampler.hpp"
#include "support/golden.hpp"
#include "support/small_gpt.hpp"

namespace rhizome::tests {
namespace {

const Golden& golden() {
    static const Golden numbers = read_golden("gpt.txt");
    return numbers;
}

/// Within 1e-9 of the largest number of the record. Single elements may cancel to nothing, so their
/// own size is no measure.
void expect_record(const std::string& name, const std::vector<double>& actual) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(golden().contains(name));
    const std::vector<double>& expected = golden().at(name);
    ASSERT_EQ(actual.size(), expected.size());
    double largest = 0;
    for (const double value : expected) largest = std::max(largest, std::abs(value));
    for (std::size_t i = 0; i < actual.size(); ++i) {
        EXPECT_NEAR(actual[i], expected[i], 1e-9 * largest) << "element " << i;
    }
}

/// The formula from which the golden runs start.
void set_golden_parameters(SmallRun& run) {
    const LayerTable& table = run.network.table();
    std::uint64_t number = 0;
    for (const TensorRef tensor : table.owned()) {
        const std::string name = table.name_of(tensor);
        const bool centred_at_one = name.ends_with("norm_1.weight") ||
                                    name.ends_with("norm_2.weight") || name == "final_norm/weight";
        ++number;
        std::vector<double> values(
            static_cast<std::size_t>(table.at(tensor).spec.shape.elements()));
        for (std::uint64_t i = 0; i < values.size(); ++i) {
            const std::uint64_t mixed =
                (i * 2654435761 + number * 40503 * 65537) % (std::uint64_t{1} << 32);
            values[i] = (static_cast<double>(mixed) / 4294967296.0 - 0.5) * 0.8;
            if (centred_at_one) values[i] += 1.0;
        }
        run.write(run.trainer.parameters().at(tensor), values);
    }
}

struct Case {
    std::string name;
    SmallOptions options;
};

class GoldenRun : public testing::TestWithParam<Case> {};

TEST_P(GoldenRun, AgreesWithNumPyInLossGradientsAndTenSteps) {
    const auto& [name, options] = GetParam();
    SmallRun run{options};
    const LayerTable& table = run.network.table();
    set_golden_parameters(run);

    std::vector<double> losses;
    std::vector<double> norms;
    std::vector<double> rates;
    for (std::int32_t step = 0; step < 10; ++step) {
        for (std::int32_t m = 0; m < options.lanes.microbatches; ++m) {
            run.trainer.run_microbatch(Step{step}, Microbatch{m});
        }
        if (step == 0) {
            for (const TensorRef owned : table.owned()) {
                std::vector<double> sum;
                for (const TensorRef use : table.uses_of(owned)) {
                    const auto part = run.read(run.trainer.gradient_by_use().at(use));
                    const bool tied = table.uses_of(owned).size() > 1;
                    if (use == owned) {
                        sum = part;
                        if (tied) expect_record(name + "/token_gradient", part);
                    } else {
                        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
                        expect_record(name + "/head_gradient", part);
                    }
                }
                expect_record(name + "/gradient/" + table.name_of(owned), sum);
            }
        }
        const engine::StepResult result = run.trainer.finish_step(Step{step});
        losses.push_back(result.loss);
        norms.push_back(result.gradient_norm);
        rates.push_back(result.learning_rate);
    }
    expect_record(name + "/loss", losses);
    expect_record(name + "/norm", norms);
    expect_record(name + "/rate", rates);
    for (const TensorRef tensor : table.owned()) {
        expect_record(name + "/parameter/" + table.name_of(tensor),
                      run.read(run.trainer.parameters().at(tensor)));
    }
    EXPECT_GT(*std::max_element(norms.begin(), norms.end()), small_optimizer().clip_norm)
        << "clipping was never active";
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenRun,
                         testing::Values(Case{"tied", {}}, Case{"untied_dropout",
                                                                {.tying = model::Tying::untied,
                                                                 .dropout = 0.2,
                                                                 .lanes = {6, 3}}}),
                         [](const auto& each) { return each.param.name; });

TEST(Golden, InitialValuesAgreeWithNumPy) {
    SmallRun run{{}};
    const LayerTable& table = run.network.table();
    int compared = 0;
    for (const TensorRef tensor : table.owned()) {
        const std::string record = "initial/" + table.name_of(tensor);
        if (!golden().contains(record)) continue;
        expect_record(record, run.read(run.trainer.parameters().at(tensor)));
        ++compared;
    }
    EXPECT_EQ(compared, 2);
}

TEST(Golden, TheSamplersPermutationsAgreeWithNumPy) {
    const auto pass = [](std::uint64_t seed, std::uint32_t number, std::int64_t samples) {
        std::vector<double> order;
        for (std::int64_t place = 0; place < samples; ++place) {
            order.push_back(static_cast<double>(data::permuted(seed, number, samples, place)));
        }
        return order;
    };
    expect_record("sampler/37/pass0", pass(7, 0, 37));
    expect_record("sampler/37/pass1", pass(7, 1, 37));
    expect_record("sampler/5/pass3", pass((std::uint64_t{1} << 40) + 3, 3, 5));
}

}  // namespace
}  // namespace rhizome::tests
