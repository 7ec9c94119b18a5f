#include "actors/stage/passes.hpp"

#include "actors/stage/stage_context.hpp"
#include "actors/stage/verifying.hpp"
#include "runtime/core/error.hpp"

#include <cstdint>
#include <utility>

namespace troupe::actors {
namespace {

using runtime::action_kind;
using runtime::bundle;

class plain_pass {
 public:
  plain_pass(const pass_order& of,
             pass_outcome& to,
             stage_context& context,
             runtime::stream& stream)
      : of_(of), to_(to), context_(context), stream_(stream), worker_(*context.worker) {}
  virtual ~plain_pass() = default;

  virtual void run() {
    switch (of_.what.kind) {
      case action_kind::forward:
        return hand_on(forward(take()));
      case action_kind::input_gradients:
        return hand_on(input_gradients(take()));
      case action_kind::weight_gradients:
        return weight_gradients();
      case action_kind::recompute:
        return worker_.recompute(of_.key, of_.what.block);
      default:
        throw runtime::broken_promise("STAGE-1: a row is lowered before it is executed");
    }
  }

 protected:
  virtual bundle take() { return redeem(*of_.transport, of_.inputs, {&stream_, of_.token}); }
  virtual bundle forward(const bundle& in) { return worker_.forward(of_.key, in); }
  virtual bundle input_gradients(const bundle& in) {
    return worker_.input_gradients(of_.key, in, of_.what.block);
  }
  virtual void weight_gradients() { worker_.weight_gradients(of_.key, of_.what.block); }

  const pass_order& of_;
  pass_outcome& to_;
  stage_context& context_;
  runtime::stream& stream_;
  runtime::worker& worker_;

 private:
  void hand_on(const bundle& parts) {
    to_.outputs
        = deposit(*of_.transport, parts, of_.generation, std::exchange(to_.credit, nullptr));
  }
};

/// Keeps what another replica needs to recompute the pass.
class verified_pass : public plain_pass {
 public:
  using plain_pass::plain_pass;

 protected:
  bundle forward(const bundle& in) override {
    auto out = plain_pass::forward(in);
    keep_forward(context_, of_.key, in, out);
    return out;
  }
  bundle input_gradients(const bundle& in) override {
    keep_gradient(context_, of_.key, in);
    auto out = plain_pass::input_gradients(in);
    if (of_.what.block == 0)
      keep_input_gradient(context_, of_.key, out);
    return out;
  }
  void weight_gradients() override {
    to_.check = add_and_keep(context_, of_.key, of_.what.block, *of_.transport, of_.generation);
  }
};

template <class Pass>
class timed_pass : public Pass {
 public:
  using Pass::Pass;

  void run() override {
    auto& times = this->to_.times;
    const auto before = without_core(), waited_before = waited();
    times.begin = this->stream_.now();
    Pass::run();
    times.end = this->stream_.now();
    times.no_core = without_core() - before;
    times.waited = waited() - waited_before;
    if (this->of_.timed)
      this->to_.longest_ms = this->context_.longest_ms(times.begin, times.end, this->stream_);
  }

 protected:
  bundle take() override {
    if (!this->of_.takes_times)
      return Pass::take();
    auto& times = this->to_.times;
    const auto before = without_core();
    times.redeems = this->stream_.now();
    auto out = Pass::take();
    times.redeemed = this->stream_.now();
    times.no_core_redeeming = without_core() - before;
    for (const auto& [name, part] : out)
      times.bytes += part.bytes();
    return out;
  }

 private:
  /// Work on a device needs no core, and runs while the lane waits.
  bool runs_on_lane() const { return this->of_.takes_times && this->stream_.queue() == nullptr; }
  std::uint64_t without_core() const { return runs_on_lane() ? this->context_.core.ns() : 0; }
  std::uint64_t waited() const {
    return runs_on_lane() ? this->worker_.waited_ns(this->of_.key.chunk) : 0;
  }
};

template <class Pass>
void run_pass(const pass_order& x,
              pass_outcome& to,
              stage_context& context,
              runtime::stream& stream) {
  if (x.timed || x.takes_times)
    timed_pass<Pass>(x, to, context, stream).run();
  else
    Pass(x, to, context, stream).run();
}

}  // namespace

void carry_out(const pass_order& x,
               pass_outcome& to,
               stage_context& context,
               runtime::stream& stream) {
  const auto run = x.verified ? &run_pass<verified_pass> : &run_pass<plain_pass>;
  run(x, to, context, stream);
}

}  // namespace troupe::actors
