#include "runtime/http/session.hpp"

#include <boost/asio/post.hpp>
#include <exception>
#include <utility>

namespace troupe::runtime::http {
namespace {

/// Its session may already be closed.
class answer_slip final : public exchange {
 public:
  answer_slip(const std::shared_ptr<room>& in,
              const std::shared_ptr<session>& of,
              std::uint64_t number,
              request asked)
      : room_(in), session_(of), number_(number), asked_(std::move(asked)) {}
  ~answer_slip() override {
    if (!answered_.exchange(true))
      post([](session& x, std::uint64_t number) {
        x.answer(number, error_response(500, "the server did not answer this request"));
      });
  }

  const request& asked() const override { return asked_; }

  bool has_client() const override {
    const auto x = session_.lock();
    return x && x->has_client;
  }

  void answer(response x) override {
    if (!answered_.exchange(true))
      post([x = std::move(x)](session& of, std::uint64_t number) mutable {
        of.answer(number, std::move(x));
      });
  }

  std::function<void()> stream(response head, std::unique_ptr<body_source> source) override {
    if (answered_.exchange(true))
      return [] {};
    // std::function copies what it holds, so the source travels in a shared pointer.
    auto moved = std::make_shared<std::unique_ptr<body_source>>(std::move(source));
    post([head = std::move(head), moved](session& of, std::uint64_t number) mutable {
      of.stream(number, std::move(head), std::move(*moved));
    });
    return [in = room_,
            of = session_,
            number = number_,
            is_posted = std::make_shared<std::atomic<bool>>(false)] {
      const auto alive = in.lock();
      if (!alive || is_posted->exchange(true))
        return;
      asio::post(alive->io, [of, number, is_posted] {
        is_posted->store(false);
        if (const auto x = of.lock())
          x->wake(number);
      });
    };
  }

 private:
  template <class Work>
  void post(Work work) {
    if (const auto alive = room_.lock())
      asio::post(alive->io, [of = session_, number = number_, work = std::move(work)]() mutable {
        const auto x = of.lock();
        if (!x)
          return;
        try {
          work(*x, number);
        } catch (const std::exception&) {  // such as an invalid status
          x->close();
        }
      });
  }

  const std::weak_ptr<room> room_;
  const std::weak_ptr<session> session_;
  const std::uint64_t number_;
  const request asked_;
  std::atomic<bool> answered_ = false;
};

}  // namespace

std::shared_ptr<exchange> make_exchange(const std::shared_ptr<room>& in,
                                        const std::shared_ptr<session>& of,
                                        std::uint64_t number,
                                        request asked) {
  return std::make_shared<answer_slip>(in, of, number, std::move(asked));
}

}  // namespace troupe::runtime::http
