//! The helper process's two ends, on two threads.

use std::os::unix::net::UnixStream;
use std::sync::Mutex;

use super::*;
use crate::krbd::helper::{Ended, acknowledge, ask, ask_to_undo, serve_with};

const MARK: &str = "origin=-/0/7/0/00000000000000aa";

/// What `program` gets from a helper of this driver, which has ended by then.
fn with_helper<T>(krbd: &Krbd, program: impl FnOnce(&UnixStream) -> T) -> T {
    let (ours, theirs) = UnixStream::pair().unwrap();
    std::thread::scope(|scope| {
        let helper = scope.spawn(move || serve_with(krbd, &theirs, |_| ()));
        std::io::Read::read_exact(&mut &ours, &mut [0]).unwrap();
        let result = program(&ours);
        drop(ours);
        // A program that is gone is no reason to panic.
        let _ = helper.join().unwrap();
        result
    })
}

#[test]
fn a_helper_writes_what_it_is_asked_to_and_tells_how_that_went() {
    let host = Host::new();
    let written = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&written);
    let krbd = host.with_kernel(move |_, file, request| {
        seen.lock().unwrap().push(format!("{file} {request}"));
        if request == "3" { errno(libc::EBUSY) } else { Ok(()) }
    });
    with_helper(&krbd, |stream| {
        let ask = |verb, text| {
            let answer = ask(stream, verb, text, None).unwrap();
            acknowledge(stream);
            answer.map_err(|BusError(stage, error)| (stage, error.raw_os_error()))
        };
        assert_eq!(ask("add", b"a b c d -"), Ok(()));
        assert_eq!(ask("remove", b"3"), Err((Stage::Write, Some(libc::EBUSY))));
        assert_eq!(ask("remove", b"4"), Ok(()));
    });
    assert_eq!(
        *written.lock().unwrap(),
        ["add_single_major a b c d -", "remove_single_major 3", "remove_single_major 4"]
    );
}

#[test]
fn what_was_mapped_for_a_program_that_is_gone_is_unmapped_again_and_nothing_else() {
    let host = Host::new();
    host.add(0, FSID_1, ["kube", "", "pvc-1", "-"]);
    host.set(0, "config_info", &MARK.replace("aa", "bb"));
    let krbd = host.with_kernel(|bus, file, request| {
        if file == "add_single_major" {
            add_device(bus, 1, ["kube", "", "pvc-1", "-"]);
            fs::write(bus.join("devices/1/config_info"), request).unwrap();
            return Ok(());
        }
        assert_eq!(request, "1");
        fs::remove_dir_all(bus.join("devices/1"))
    });
    let request = format!("192.0.2.1 name=admin kube pvc-1 - {MARK}");
    with_helper(&krbd, |stream| {
        ask(stream, "add", request.as_bytes(), None).unwrap().map_err(|error| error.1).unwrap();
        // It has the answer, and ends before that comes to anybody.
    });
    assert_eq!(krbd.list().unwrap().iter().map(|device| device.id).collect::<Vec<_>>(), [0]);
}

#[test]
fn a_map_is_given_up_if_the_program_ends_before_it_and_what_came_of_it_is_undone() {
    let host = Host::new();
    let (begin, begun) = std::sync::mpsc::channel::<()>();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = Mutex::new(released);
    let krbd = host.with_kernel(move |bus, file, request| match file {
        "add_single_major" => {
            begin.send(()).unwrap();
            released.lock().unwrap().recv().unwrap();
            add_device(bus, 1, ["kube", "", "pvc-1", "-"]);
            fs::write(bus.join("devices/1/config_info"), request)
        }
        _ => fs::remove_dir_all(bus.join("devices").join(request)),
    });
    let request = format!("192.0.2.1 name=admin,secret=AQ kube pvc-1 - {MARK}");
    let (ours, theirs) = UnixStream::pair().unwrap();
    std::thread::scope(|scope| {
        let helper = scope.spawn(|| {
            serve_with(&krbd, &theirs, |mark| {
                // All that another process is told.
                assert_eq!(mark, MARK.as_bytes());
                release.send(()).unwrap();
            })
        });
        io::Read::read_exact(&mut &ours, &mut [0]).unwrap();
        let asked = scope.spawn(|| ask(&ours, "add", request.as_bytes(), None).map(drop));
        begun.recv().unwrap();
        ours.shutdown(std::net::Shutdown::Write).unwrap();
        asked.join().unwrap().unwrap();
        drop(helper.join().unwrap().unwrap_err());
    });
    assert_eq!(krbd.list().unwrap(), []);
}

#[test]
fn what_another_helper_gave_up_is_undone_when_that_has_ended() {
    let host = Host::new();
    for (id, mark) in [(0, MARK.replace("aa", "bb")), (1, MARK.to_owned())] {
        host.add(id, FSID_1, ["kube", "", "pvc-1", "-"]);
        host.set(id, "config_info", &format!("192.0.2.1 name=admin kube pvc-1 - {mark}"));
    }
    let krbd = host.with_kernel(|bus, _, request| fs::remove_dir_all(bus.join("devices").join(request)));
    with_helper(&krbd, |stream| {
        ask_to_undo(stream, MARK.as_bytes()).unwrap();
        assert_eq!(krbd.list().unwrap().len(), 2);
    });
    assert_eq!(krbd.list().unwrap().iter().map(|device| device.id).collect::<Vec<_>>(), [0]);
}

#[test]
fn an_answer_counts_although_the_helper_was_killed_right_after_it() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            let answer = ask(&ours, "remove", b"3", None);
            acknowledge(&ours);
            answer
        });
        io::Read::read_exact(&mut theirs, &mut [0; 4 * 4 + "remove".len() + "3".len()]).unwrap();
        // From now on what is written to it fails.
        theirs.shutdown(std::net::Shutdown::Read).unwrap();
        io::Write::write_all(&mut theirs, &[3, libc::EBUSY as u8, 0, 0, 0]).unwrap();
        let BusError(stage, error) = asked.join().unwrap().unwrap().unwrap_err();
        assert_eq!((stage, error.raw_os_error()), (Stage::Write, Some(libc::EBUSY)));
    });
}

#[test]
fn a_helper_that_has_ended_is_no_answer() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(theirs);
    assert_eq!(ask(&ours, "add", b"text", None).map(drop), Err(Ended::BeforeRequest));
}

/// Killed, but not gone yet when it is asked: what it had read says whether it can have begun.
#[test]
fn a_helper_that_ends_with_the_request_unread_did_nothing() {
    let length = 4 * 4 + "add".len() + "text".len();
    for (read, ended) in [(0, Ended::BeforeRequest), (length - 1, Ended::BeforeRequest), (length, Ended::WithoutAnswer)]
    {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| ask(&ours, "add", b"text", None).map(drop));
            rustix::net::recv(
                &theirs,
                &mut vec![0; length],
                rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::WAITALL,
            )
            .unwrap();
            io::Read::read_exact(&mut theirs, &mut vec![0; read]).unwrap();
            drop(theirs);
            assert_eq!(asked.join().unwrap(), Err(ended), "{read} of {length} read");
        });
    }
}

#[test]
fn a_length_that_no_request_has_ends_the_helper() {
    let host = Host::new();
    let (ours, theirs) = UnixStream::pair().unwrap();
    io::Write::write_all(&mut &ours, &u32::MAX.to_le_bytes()).unwrap();
    let error = serve_with(&host.krbd(), &theirs, |_| ()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
}

/// Run again, such a program would do its own work once more instead of the helper's.
#[test]
fn a_program_that_cannot_be_a_helper_is_not_run_as_one() {
    let host = Host::new();
    host.add(0, FSID_1, ["kube", "", "pvc-1", "-"]);
    let krbd = host.krbd().detached();
    let error = krbd.map(&request("kube/pvc-1")).unwrap_err();
    assert_eq!((error.kind(), error.stage()), (ErrorKind::Unsupported, Some(Stage::Preflight)));
    assert_eq!(krbd.unmap(0, &UnmapOptions::new()).unwrap_err().kind(), ErrorKind::Unsupported);
}
