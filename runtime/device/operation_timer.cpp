#include "runtime/device/operation_timer.hpp"

#include "kernels/op/every_op.hpp"
#include "runtime/device/stream.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

namespace {

constexpr std::size_t many_marks = 1024;  ///< then the passed ones are read

/// A separate function, so that it is not compiled once per operation.
std::string made_name(const kernels::operation& op) {
  return std::string(text(op.name)) + "<" + std::string(text(op.type)) + ">";
}

/// One static string per operation and type.
std::string_view full_name(const kernels::operation& op) {
  return kernels::visit(op, [&op]<class Op>(const Op&) -> std::string_view {
    static const std::string name = made_name(op);
    return name;
  });
}

}  // namespace

operation_time call_of(const kernels::operation& op, bool on_host) {
  operation_time out{.kind = {full_name(op), {}}};
  kernels::visit(op, [&](const auto& call) {
    out.bytes = double(bytes_moved(call));
    if constexpr (requires { call.R, call.N, call.K; })
      out.kind.extents = {call.R, call.N, call.K};
    if constexpr (requires { call.groups.G; })
      out.kind.extents[0] = 0;  // the rows of experts change from call to call
    bool known = true;
    if constexpr (requires { reads_arrays(call.shape); })
      known = on_host || !reads_arrays(call.shape);
    if (known)
      out.flops = double(flops(call));
  });
  return out;
}

void operation_timer::begin_step(bool training, stream& stream) {
  if (counting_)
    end_step(stream.now());
  counting_ = training && ++begun_ > warm_up;
  if (counting_)
    marks_.push_back({mark::of::step_begin, nullptr, last_ = stream.now(), {}});
}

void operation_timer::add(const operation_time& call,
                          moment begin,
                          moment end,
                          const stream& stream) {
  auto& of = times_.try_emplace(call.kind, operation_time{call.kind}).first->second;
  of.flops += call.flops;
  of.bytes += call.bytes;
  last_ = end;
  marks_.push_back({mark::of::operation, &of, std::move(begin), std::move(end)});
  if (marks_.size() >= many_marks)
    read(stream);
}

void operation_timer::close(stream& stream) {
  if (counting_)
    end_step(last_);
  stream.finish();
  read(stream);
  std::vector<operation_time> out;
  for (const auto& [kind, x] : times_)
    out.push_back(x);
  to_->add(out, steps_, seconds_);
  times_.clear();
  steps_ = 0;
  seconds_ = 0;
}

void operation_timer::end_step(moment at) {
  marks_.push_back({mark::of::step_end, nullptr, {}, std::move(at)});
  counting_ = false;
}

void operation_timer::read(const stream& stream) {
  for (; !marks_.empty(); marks_.pop_front()) {
    auto& x = marks_.front();
    if (!stream.has_passed(x.begin) || !stream.has_passed(x.end))
      return;
    switch (x.what) {
      case mark::of::step_begin:
        began_ns_ = stream.ns_of(x.begin);
        break;
      case mark::of::operation: {
        const auto began = stream.ns_of(x.begin);
        x.operation->seconds += double(stream.ns_of(x.end) - began) / 1e9;
        ++x.operation->calls;
        break;
      }
      case mark::of::step_end:
        seconds_ += double(stream.ns_of(x.end) - began_ns_) / 1e9;
        ++steps_;
        break;
    }
  }
}

}  // namespace troupe::runtime
