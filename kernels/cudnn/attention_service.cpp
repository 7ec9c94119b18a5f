#include "kernels/cudnn/attention_service.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace troupe::kernels::cudnn {

namespace {

std::size_t aligned(std::size_t bytes) {
  return (bytes + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
}
std::size_t row_bytes(const attention_problem& x) {
  return aligned(sizeof(float) * std::size_t(x.B * x.H * x.T));
}
std::size_t sum_bytes(const attention_problem& x) {
  return x.sum == dq_sum::at_once ? 0 : aligned(sizeof(float) * std::size_t(x.B * x.H * x.T * x.D));
}

/// Name in messages; an empty `sum` is the forward pass.
std::string name_of(std::optional<dq_sum> sum) {
  if (!sum)
    return "the forward pass";
  if (*sum == dq_sum::at_once)
    return "the backward pass";
  return *sum == dq_sum::in_order ? "the backward pass of long sequences (summed in order)"
                                  : "the faster backward pass (of other bits each time)";
}

std::string not_there(const std::string& what, const std::string& why) {
  return what + " cannot be made ready: " + why;
}

/// The attention of GPT-2.
constexpr attention_shape trial_shape = {.S = 1,
                                         .H = 2,
                                         .G = 2,
                                         .D = 64,
                                         .Dv = 64,
                                         .query_row = 384,
                                         .query_group = 192,
                                         .key_row = 384,
                                         .key_group = 192,
                                         .value_row = 384,
                                         .value_group = 192,
                                         .scale = 0.125f,
                                         .query_rows = 128,
                                         .key_rows = 128,
                                         .longest_query = 128,
                                         .longest_key = 128,
                                         .uniform = true};

/// Kinds of plans that are missing for the same reason and have the same replacement.
struct failure {
  std::vector<std::optional<dq_sum>> kinds;
  std::string why;
  bool usual_serves;
};

std::string line_of(const failure& x) {
  std::string names;
  for (std::size_t i = 0; i < x.kinds.size(); ++i)
    names += (i == 0 ? "" : i + 1 == x.kinds.size() ? " and " : ", ") + name_of(x.kinds[i]);
  return not_there(names, x.why)
         + (x.usual_serves ? "; cuDNN's usual kernel computes, with the same bits each time"
                           : "; attention uses troupe's own kernels, which are slower");
}

}  // namespace

service attention_service::served(const attention_split& split, bool backward, std::string& why) {
  const auto& x = split.problem;
  const auto found = plans_.find(x, backward);
  if (found.by == nullptr) {
    why = not_there(name_of(backward ? std::optional(x.sum) : std::nullopt), found.why);
    return {};
  }
  return {found.by, split, backward ? row_bytes(x) : 0, backward ? sum_bytes(x) : 0};
}

service attention_service::find(const attention_shape& a,
                                bool half,
                                bool backward,
                                std::int64_t workspace) {
  if (!sayable(a, kind_, backward))
    return {};
  std::string why;
  if (!backward) {
    const auto out = served(forward_split(a, half), false, why);
    keep(missing_, why);
    return out;
  }
  const auto by = [&](dq_sum sum, std::string& reason) {
    return served(backward_split(a, half, sum, workspace), true, reason);
  };
  const auto first = dq_sum_for(a, kind_, workspace);
  if (!first)
    return {};
  service out = by(*first, why);
  const auto usual = usual_dq_sum(a, kind_, workspace);
  if (out.by == nullptr && *first == dq_sum::any_order && usual) {
    std::string other;
    out = by(*usual, other);
    if (out.by != nullptr) {
      keep(fallback_, why);
      return out;
    }
    why += "; " + other;
  }
  keep(missing_, why);
  return out;
}

void attention_service::keep(std::string& where, const std::string& reason) {
  if (reason.empty())
    return;
  const std::lock_guard lock(mutex_);
  if (where.empty())
    where = reason;
}

std::string attention_service::missing() const {
  const std::lock_guard lock(mutex_);
  return missing_;
}
std::string attention_service::fallback() const {
  const std::lock_guard lock(mutex_);
  return fallback_;
}

std::string attention_service::trial() {
  std::vector<failure> failures;
  const auto attempt = [&](std::optional<dq_sum> kind, bool usual_serves) {
    std::string why;
    try {
      why = plans_
                .find(kind ? backward_split(trial_shape, false, *kind).problem
                           : forward_split(trial_shape, false).problem,
                      kind.has_value())
                .why;
    } catch (const device_failure& e) {
      why = e.what();
    }
    if (why.empty())
      return true;
    const auto same = std::find_if(failures.begin(), failures.end(), [&](const failure& x) {
      return x.why == why && x.usual_serves == usual_serves;
    });
    if (same != failures.end())
      same->kinds.push_back(kind);
    else
      failures.push_back({{kind}, why, usual_serves});
    return false;
  };
  attempt(std::nullopt, false);
  const bool usual = attempt(dq_sum::at_once, false);
  if (sums_in_order(kind_))
    attempt(dq_sum::in_order, false);
  attempt(dq_sum::any_order, usual);
  std::string out;
  for (const auto& each : failures)
    out += (out.empty() ? "" : "\n") + line_of(each);
  return out;
}

}  // namespace troupe::kernels::cudnn
