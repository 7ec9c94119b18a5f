#include "runtime/trainer/verification.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/random.hpp"
#include "runtime/tensor/moves.hpp"
#include "runtime/trainer/worker.hpp"

#include <cstring>
#include <fmt/format.h>
#include <utility>

namespace troupe::runtime {

namespace {

void add_losses(bundle& to, const pass_losses& all) {
  for (const auto& [place, sums] : all)
    to.add(fmt::format("{} of {} {}", place.name, place.unit, place.segment), sums);
}

}  // namespace

bool is_verified(double fraction, std::uint64_t seed, step_id step, const verifiable_pass& x) {
  if (fraction <= 0)
    return false;
  ensure(x.span > 0, "VERIFY-4: groups of replicas with one plan verify each other's passes");
  const int first = x.replica - x.replica % x.span;
  const auto index = (std::uint64_t(first) << 48) + (std::uint64_t(value(x.copy)) << 44)
                     + (std::uint64_t(value(x.chunk)) << 32) + value(x.microbatch);
  return uniform(random_key(seed, "verify", value(step)), index) < fraction;
}

verified_passes count_verified(double fraction,
                               std::uint64_t seed,
                               step_id step,
                               const verifiable_pass& of,
                               int microbatches,
                               int each) {
  verified_passes out;
  bool before = false;
  for (int m = 0; m < microbatches; ++m) {
    auto x = of;
    x.microbatch = microbatch_id(std::uint32_t(m));
    const bool now = is_verified(fraction, seed, step, x);
    out.all += now ? 1 : 0;
    out.copied += now && !before && m % each != 0 ? 1 : 0;
    before = now;
  }
  return out;
}

int verifier_of(int replica, int replicas, int span) {
  return (replica + span) % replicas;
}

int verified_by(int replica, int replicas, int span) {
  return (replica + replicas - span) % replicas;
}

digest worker::digest_of(const bundle& x) {
  digester out;
  if (!stream_.pool().is_shadow())
    for (const auto& [name, part] : x)
      add_bytes(out.add(name), stream_, part.kind(), part.raw(), part.bytes());
  return out.result();
}

bundle worker::copy_of(const bundle& x) {
  bundle out;
  for (const auto& [name, part] : x) {
    tensor copy(stream_.allocate(part.bytes()), part.type(), part.extents());
    if (!stream_.pool().is_shadow())
      stream_.copy(copy.raw(), part.raw(), part.bytes());
    out.add(name, std::move(copy));
  }
  publish(stream_, out);
  return out;
}

digest worker::output_digest(const pass_key& key, const bundle& out) {
  auto all = out;
  if (const auto found = losses_.find(key); found != losses_.end())
    add_losses(all, found->second);
  return digest_of(all);
}

void worker::weight_gradients(const pass_key& key, int block, added_gradients& to) {
  ensure(at(key.chunk).witness != nullptr,
         "WORKER-12: what a pass adds is taken down where passes are verified");
  add_gradients(key, block, &to);
  bundle given;
  for (const auto& x : to.given)
    given.add("before", x);
  publish(stream_, given);
}

replayed_gradients& worker::replayed(chunk_id id) {
  auto& [of, gradients] = replayed_;
  if (gradients == nullptr || of != id) {
    gradients.reset();  // before there is memory for the next
    replayed_ = {id, std::make_unique<replayed_gradients>(*at(id).store, stream_)};
  }
  return *gradients;
}

worker::again worker::compute_again(chunk_id id,
                                    const bundle& in,
                                    const bundle& gradient,
                                    added_gradients to) {
  auto& home = at(id);
  auto& store = replayed(id);
  for (auto& x : to.given)
    x = taken(stream_, x);
  store.begin(std::move(to));
  const auto pass = new_pass(home, store);
  auto forward = pass->forward(in);
  add_losses(forward, pass->losses());
  again out{.output = digest_of(forward), .continues = store.continues()};
  forward = {};
  bundle back;
  for (int b = pass->blocks() - 1; b >= 0; --b) {
    if (home.plan.blocks[std::size_t(b)].recomputed)
      pass->recompute(b);
    if (is_whole(id)) {
      pass->backward(b);
    } else {
      back = pass->input_gradients(b == pass->blocks() - 1 ? gradient : bundle(), b);
      pass->weight_gradients(b);
    }
    store.end_work();
  }
  if (gives_gradient(id))
    out.input_gradient = digest_of(back);
  out.weight_gradient = store.end();
  return out;
}

void worker::flip_added_bit(chunk_id id) {
  if (auto& home = at(id); home.witness && !stream_.pool().is_shadow())
    home.witness->flip_next();
}

void worker::flip_output_bit(const pass_key& key, bundle& out) {
  const auto& flow = at(key.chunk).model.flow();
  tensor x;
  for (const auto* const streams : {&flow.after.streams, &flow.before.streams})
    for (const auto& name : *streams)
      if (!x && out.has(name))
        x = out.at(name);
  if (const auto found = losses_.find(key); !x && found != losses_.end())
    x = found->second.begin()->second;
  if (!x || stream_.pool().is_shadow())
    return;
  std::byte one{};
  stream_.read(&one, x.raw(), 1);
  one ^= std::byte{1} << 2;
  stream_.write(x.raw(), &one, 1);
}

}  // namespace troupe::runtime
