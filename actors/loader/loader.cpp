#include "actors/loader/loader.hpp"

#include "actors/support/guard.hpp"
#include "actors/support/on_board.hpp"
#include "runtime/core/error.hpp"

#include <caf/delegated.hpp>
#include <caf/result.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <array>
#include <exception>
#include <fmt/format.h>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace troupe::actors {
namespace {

/// DATA-4.
runtime::bundle asked_for(const messages::request_batch& x, const runtime::bundle& all) {
  runtime::bundle out;
  for (const auto& name : x.names)
    if (all.has(name))
      out.add(name, all.at(name));
    else if (!runtime::is_document_border(name))
      throw runtime::input_error(
          "cannot read '{}' of a micro-batch, which has only {}; train this model on data of its "
          "family",
          name,
          names_of(all));
  return out;
}

const runtime::batch_source& source_of(const messages::request_batch& x,
                                       const loader_resources& context) {
  return x.test ? *context.test : x.validation ? *context.validation : *context.training;
}

/// Cache of the micro-batches of the last two requested steps. First and last stage and every
/// tensor rank request the same one, and some request a step ahead. The entries share memory with
/// what is being sent.
class recent_batches {
 public:
  runtime::bundle at(const runtime::batch_source& from, const messages::request_batch& x) {
    auto& kept = of({x.consumed, x.validation, x.test});
    const auto key = std::pair(x.replica, x.microbatch);
    const auto found = kept.find(key);
    if (found != kept.end())
      return found->second;
    return kept.emplace(key, from.microbatch({x.consumed, x.microbatch, std::uint64_t(x.replica)}))
        .first->second;
  }

 private:
  using step = std::tuple<std::uint64_t, bool, bool>;
  using batches = std::map<std::pair<int, std::uint64_t>, runtime::bundle>;

  batches& of(const step& which) {
    if (steps_[0].first != which) {
      std::swap(steps_[0], steps_[1]);
      if (steps_[0].first != which)
        steps_[0] = {which, {}};
    }
    return steps_[0].second;
  }

  std::array<std::pair<step, batches>, 2> steps_ = {};  ///< newest first
};

std::string data_of(const messages::request_batch& x) {
  const auto step = runtime::value(x.at.step);
  return x.validation
             ? fmt::format("the {} data after iteration {}", x.test ? "test" : "validation", step)
             : fmt::format("the data of iteration {}", step);
}

/// The tensors that are requested. The error names the step that needs the data.
runtime::bundle read(recent_batches& recent,
                     const runtime::batch_source& from,
                     const messages::request_batch& x) {
  try {
    return asked_for(x, recent.at(from, x));
  } catch (const runtime::cancelled&) {
    throw;
  } catch (const runtime::error& failure) {
    throw runtime::input_error("{}: {}", data_of(x), failure.what());
  }
}

}  // namespace

messages::loader_actor::behavior_type loader(messages::loader_actor::pointer self,
                                             const std::shared_ptr<const loader_resources>& context,
                                             runtime::generation_id generation) {
  end_on_exception(self, "loader");
  std::shared_ptr<runtime::lane_board::place> place;
  if (context->env.own_threads)
    place = context->lanes->add({.who = "loader",
                                 .generation = value(generation),
                                 .service = true,
                                 .patience = patience_with_disks});
  const auto serve = [self, context, place, recent = std::make_shared<recent_batches>()](
                         const messages::request_batch& x) -> caf::result<messages::batch_ready> {
    try {
      const auto asked = read(*recent, source_of(x, *context), x);
      messages::batch_ready answer{x.at,
                                   runtime::deposit(*context->transport, asked, x.at.generation)};
      if (!self->current_message_id().is_async())
        return context->messages->checked(self->home_system(), std::move(answer));
      // Sent as a message instead of a CAF response, because it may be late.
      context->messages->send(
          self, caf::actor_cast<messages::stage_actor>(self->current_sender()), std::move(answer));
      return caf::delegated<messages::batch_ready>();
    } catch (const runtime::cancelled&) {
      return caf::delegated<messages::batch_ready>();  // its generation has ended; no stage waits
    } catch (...) {
      // A prefetch failed: the stage asks again when it needs the data.
      if (!x.ahead || !is(reason_of("loader", std::current_exception()), messages::ec::refused))
        throw;
      context->messages->send(self,
                              caf::actor_cast<messages::stage_actor>(self->current_sender()),
                              messages::batch_failed{x.at});
      return caf::delegated<messages::batch_ready>();
    }
  };
  return {on_board<messages::request_batch>(self, context->messages, place, serve)};
}

}  // namespace troupe::actors
