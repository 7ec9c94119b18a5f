// Verification: recomputes passes of another replica's stage, and compares the results.

#include "actors/stage/verifying.hpp"

#include "actors/stage/stage.hpp"
#include "runtime/core/error.hpp"
#include "runtime/trainer/verification.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <utility>

namespace troupe::actors {
namespace {

/// Prefix of the names of gradients, which are in one bundle with the inputs.
constexpr std::string_view gradient_prefix = "gradient of ";
constexpr const char* before_name = "before";  ///< gradients before the pass added to them

messages::check_pass packed(stage_context::kept_pass x,
                            runtime::transport& by,
                            runtime::generation_id generation) {
  auto all = std::move(x.in);
  for (const auto& [stream, part] : x.gradient)
    all.add(std::string(gradient_prefix) + stream, part);
  for (auto& part : x.added.given)
    all.add(before_name, std::move(part));
  messages::check_pass out;
  out.data = runtime::deposit(by, all, generation);
  out.output = x.output;
  out.input_gradient = x.input_gradient;
  out.weight_gradient = x.added.after;
  for (const auto one : x.added.before)
    out.before.push_back(std::uint8_t(one));
  return out;
}

/// Reverses packed().
struct unpacked_pass {
  runtime::bundle in = {}, gradient = {};
  runtime::added_gradients added = {};

  unpacked_pass(const runtime::bundle& all, const std::vector<std::uint8_t>& before) {
    for (const auto& [name, part] : all)
      if (name.starts_with(gradient_prefix))
        gradient.add(name.substr(gradient_prefix.size()), part);
      else if (name == before_name)
        added.given.push_back(part);
      else
        in.add(name, part);
    for (const auto one : before) {
      runtime::ensure(one <= std::uint8_t(runtime::gradient_before::given),
                      "REPLAY-1: a replayed pass adds to the same gradients as the original");
      added.before.push_back(runtime::gradient_before(one));
    }
  }
};

}  // namespace

void keep_forward(stage_context& context,
                  const runtime::pass_key& key,
                  const runtime::bundle& in,
                  const runtime::bundle& out) {
  context.verified.insert_or_assign(key,
                                    stage_context::kept_pass{
                                        .in = in,
                                        .output = context.worker->output_digest(key, out),
                                    });
}

void keep_gradient(stage_context& context,
                   const runtime::pass_key& key,
                   const runtime::bundle& in) {
  if (in.size() > 0)
    context.verified[key].gradient = context.worker->copy_of(in);
}

void keep_input_gradient(stage_context& context,
                         const runtime::pass_key& key,
                         const runtime::bundle& out) {
  if (context.worker->gives_gradient(key.chunk))
    context.verified[key].input_gradient = context.worker->digest_of(out);
}

std::optional<messages::check_pass> add_and_keep(stage_context& context,
                                                 const runtime::pass_key& key,
                                                 int block,
                                                 runtime::transport& by,
                                                 runtime::generation_id generation) {
  context.worker->weight_gradients(key, block, context.verified[key].added);
  if (block > 0)
    return std::nullopt;
  return packed(std::move(context.verified.extract(key).mapped()), by, generation);
}

bool stage_state::is_verified(const runtime::action& x) const {
  return !now_->step.validation
         && runtime::is_verified(job_->job.recovery.verify_fraction,
                                 job_->job.training.seed,
                                 step_,
                                 {replica_, job_->span, x.chunk, x.microbatch, x.copy});
}

void stage_state::send_to_check(const runtime::action& x, messages::check_pass what) {
  what.at = pass_of(x);
  what.replica = replica_;
  what.by = runtime::verifier_of(replica_, job_->replicas(), job_->span);
  what.stage_index = stage_index();
  node_->messages->send(self_, peers_.replica, std::move(what));
}

void stage_state::expect_checks() {
  const double fraction = job_->job.recovery.verify_fraction;
  if (fraction <= 0 || now_->step.validation)
    return;
  const int whose = runtime::verified_by(replica_, job_->replicas(), job_->span);
  for (const auto& hosted : job_->pipeline.schedule->hosted_by(pipeline_rank_))
    for (int m = 0; m < now_->plan->microbatches_each(); ++m) {
      const runtime::microbatch_id microbatch{std::uint32_t(m)};
      if (runtime::is_verified(fraction,
                               job_->job.training.seed,
                               step_,
                               {whose, job_->span, hosted.chunk, microbatch, hosted.copy}))
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
                             .by = replica_,
                             .chunk = x.at.chunk,
                             .copy = x.at.copy,
                             .microbatch = x.at.microbatch,
                             .output = x.output,
                             .input_gradient = x.input_gradient,
                             .weight_gradient = x.weight_gradient});
  const auto continues = std::make_shared<bool>(false);
  submit(
      fmt::format("check {}F{}", value(x.at.chunk), value(x.at.microbatch)),
      [x, result, continues, by = node_->transport, token = groups_->token()](
          stage_context& context, runtime::stream& stream) {
        auto parts = unpacked_pass(runtime::redeem(*by, x.data, {&stream, token}), x.before);
        const auto again = context.worker->compute_again(
            x.at.chunk, parts.in, parts.gradient, std::move(parts.added));
        result->output_again = again.output;
        result->input_gradient_again = again.input_gradient;
        result->weight_gradient_again = again.weight_gradient;
        *continues = again.continues;
      },
      [this, result, continues] {
        // A pass that continues from a different result differs, too.
        auto& other = now_->adds_otherwise;
        result->follows_other = *continues && other == result->chunk;
        if (!result->follows_other) {
          other.reset();
          if (result->weight_gradient_again != result->weight_gradient)
            other = result->chunk;
        }
        now_->checked.push_back(*result);
        vote_if_done();
      });
}

}  // namespace troupe::actors
