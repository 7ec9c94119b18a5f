// Passes that another replica's stage of the same place computes again, and compares.

#include "actors/stage/verifying.hpp"

#include "actors/stage/stage.hpp"
#include "runtime/trainer/verification.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace troupe::actors {
namespace {

constexpr const char* gradient_name = "gradient";  ///< of what went out, beside what went in

messages::check_pass packed(stage_context::verified_pass x,
                            const runtime::digest& input_gradient,
                            runtime::transport& by,
                            runtime::generation_id generation) {
  auto all = std::move(x.in);
  if (x.gradient.has("hidden"))
    all.add(gradient_name, x.gradient.at("hidden"));
  messages::check_pass out;
  out.data = runtime::deposit(by, all, generation);
  out.output = x.output;
  out.input_gradient = input_gradient;
  return out;
}

}  // namespace

std::optional<messages::check_pass> keep_forward(stage_context& context,
                                                 const runtime::pass_key& key,
                                                 const runtime::bundle& in,
                                                 const runtime::bundle& out,
                                                 runtime::transport& by,
                                                 runtime::generation_id generation) {
  stage_context::verified_pass kept{in, {}, context.worker->output_digest(key, out)};
  if (!context.worker->gives_gradient(key.chunk))
    return packed(std::move(kept), {}, by, generation);
  context.verified.insert_or_assign(key, std::move(kept));
  return std::nullopt;
}

std::optional<messages::check_pass> keep_gradient(stage_context& context,
                                                  const runtime::pass_key& key,
                                                  const runtime::bundle& out,
                                                  runtime::transport& by,
                                                  runtime::generation_id generation) {
  auto kept = context.verified.extract(key);
  if (kept.empty() || !context.worker->gives_gradient(key.chunk))
    return std::nullopt;
  return packed(std::move(kept.mapped()), context.worker->digest_of(out), by, generation);
}

bool stage_state::is_verified(const runtime::action& x) const {
  return !now_->step.validation
         && runtime::is_verified(job_->job.recovery.verify_fraction,
                                 job_->job.training.seed,
                                 step_,
                                 {told_.replica, x.chunk, x.microbatch});
}

void stage_state::send_to_check(const runtime::action& x, messages::check_pass what) {
  what.at = pass_of(x);
  what.replica = told_.replica;
  what.by = runtime::verifier_of(told_.replica, job_->replicas());
  what.stage_index = stage_index();
  node_->messages->send(self_, peers_.replica, std::move(what));
}

void stage_state::expect_checks() {
  const double fraction = job_->job.recovery.verify_fraction;
  if (fraction <= 0 || now_->step.validation)
    return;
  const int whose = runtime::verified_by(told_.replica, job_->replicas());
  for (const auto& hosted : job_->pipeline.schedule->hosted_by(told_.pipeline_rank))
    for (int m = 0; m < now_->plan->microbatches_each(); ++m) {
      const runtime::microbatch_id microbatch{std::uint32_t(m)};
      if (runtime::is_verified(
              fraction, job_->job.training.seed, step_, {whose, hosted.chunk, microbatch}))
        now_->checks.emplace_back(hosted.chunk, microbatch);
    }
}

void stage_state::receive(const messages::check_pass& x) {
  if (!is_ours(x.at.generation))
    return;
  to_check_.insert_or_assign({x.at.step, {x.at.chunk, x.at.microbatch}}, x);
  if (now_)
    vote_if_done();
}

void stage_state::check_passes() {
  for (auto& at = now_->checks_submitted; at < now_->checks.size(); ++at) {
    auto found = to_check_.extract({step_, now_->checks[at]});
    if (found.empty())
      return;
    check(found.mapped());
  }
}

void stage_state::check(const messages::check_pass& x) {
  const auto result = std::make_shared<messages::checked_pass>(
      messages::checked_pass{.stage_index = x.stage_index,
                             .replica = x.replica,
                             .by = told_.replica,
                             .chunk = x.at.chunk,
                             .microbatch = x.at.microbatch,
                             .output = x.output,
                             .input_gradient = x.input_gradient});
  submit(
      fmt::format("check {}F{}", value(x.at.chunk), value(x.at.microbatch)),
      [x, result, by = node_->transport, token = groups_->token()](stage_context& context,
                                                                   runtime::stream& stream) {
        const auto all = runtime::redeem(*by, x.data, {&stream, token});
        runtime::bundle in, gradient;
        for (const auto& [name, part] : all)
          if (name == gradient_name)
            gradient.add("hidden", part);
          else
            in.add(name, part);
        const auto again = context.worker->compute_again(x.at.chunk, in, gradient);
        result->output_again = again.output;
        result->input_gradient_again = again.input_gradient;
      },
      [this, result] {
        now_->checked.push_back(*result);
        vote_if_done();
      });
}

}  // namespace troupe::actors
