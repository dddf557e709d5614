#include "recover/keep_lanes.hpp"

#include <algorithm>
#include <limits>

namespace rhizome::recover {
namespace {

const Report* find(const Survey& survey, WorkerId worker) {
    const auto found =
        std::find_if(survey.reports.begin(), survey.reports.end(),
                     [worker](const Report& report) { return report.worker == worker; });
    return found == survey.reports.end() ? nullptr : &*found;
}

/// A pipeline that lost nobody.
struct Whole {
    PipelineShape pipeline;
    std::vector<Lane> kept;
    std::int32_t missing;  // lanes that it still has to compute
};

/// Nothing if somebody of it is lost.
std::optional<Whole> find_whole(const PipelineShape& pipeline, std::int32_t lanes,
                                const Survey& survey) {
    std::vector<std::vector<bool>> done;
    for (const StageShape& stage : pipeline.stages) {
        const Report* const report = find(survey, stage.worker);
        if (report == nullptr) return std::nullopt;
        ENSURE(report->lanes.size() == static_cast<std::size_t>(lanes));
        done.push_back(report->lanes);
    }
    const std::vector<bool> common = common_lanes(done);
    Whole whole{.pipeline = pipeline, .kept = {}, .missing = pipeline.lanes.size()};
    for (std::int32_t lane = pipeline.lanes.first; lane < pipeline.lanes.last; ++lane) {
        if (!common[static_cast<std::size_t>(lane)]) continue;
        whole.kept.emplace_back(lane);
        --whole.missing;
    }
    return whole;
}

class Sharing {
  public:
    Sharing(std::vector<Whole>& wholes, const Manner& manner) : wholes_{wholes}, manner_{manner} {}

    /// Lanes between two pipelines go to either, so that both end as early as can be.
    void run() {
        take_before(wholes_.front(), 0);
        take_behind(wholes_.back(), manner_.lanes.lanes);
        for (std::size_t i = 0; i + 1 < wholes_.size(); ++i) {
            Whole& left = wholes_[i];
            Whole& right = wholes_[i + 1];
            const std::int32_t first = left.pipeline.lanes.last;
            const std::int32_t last = right.pipeline.lanes.first;
            std::int32_t best = first;
            double least = std::numeric_limits<double>::infinity();
            for (std::int32_t border = first; border <= last; ++border) {
                const double slower =
                    std::max(seconds(left, border - first), seconds(right, last - border));
                if (slower >= least) continue;
                least = slower;
                best = border;
            }
            take_behind(left, best);
            take_before(right, best);
        }
    }

    [[nodiscard]] double slowest() const {
        double slowest = 0;
        for (const Whole& whole : wholes_) slowest = std::max(slowest, seconds(whole, 0));
        return slowest;
    }

  private:
    [[nodiscard]] double seconds(const Whole& whole, std::int32_t more) const {
        return pipeline_seconds(whole.pipeline, (whole.missing + more) * manner_.lanes.length(),
                                manner_.layers);
    }
    static void take_before(Whole& whole, std::int32_t first) {
        whole.missing += whole.pipeline.lanes.first - first;
        whole.pipeline.lanes.first = first;
    }
    static void take_behind(Whole& whole, std::int32_t last) {
        whole.missing += last - whole.pipeline.lanes.last;
        whole.pipeline.lanes.last = last;
    }

    std::vector<Whole>& wholes_;
    const Manner& manner_;
};

}  // namespace

std::optional<Rest> keep_lanes(const Survey& survey, const InUse& in_use, const Manner& manner) {
    std::vector<Whole> wholes;
    Rest rest{.shape = {.workers = {}, .lanes = in_use.shape.lanes, .pipelines = {}},
              .kept = {},
              .seconds = 0};
    for (const PipelineShape& pipeline : in_use.shape.pipelines) {
        auto whole = find_whole(pipeline, rest.shape.lanes.lanes, survey);
        if (!whole) continue;
        rest.kept.insert(rest.kept.end(), whole->kept.begin(), whole->kept.end());
        wholes.push_back(*std::move(whole));
    }
    if (rest.kept.empty()) return std::nullopt;
    Sharing sharing{wholes, manner};
    sharing.run();
    rest.seconds = sharing.slowest();
    for (const Report& report : survey.reports) rest.shape.workers.push_back(report.worker);
    for (Whole& whole : wholes) rest.shape.pipelines.push_back(std::move(whole.pipeline));
    return rest;
}

}  // namespace rhizome::recover
