// The script of the web interface: it keeps the page up to date, counts times on, copies, and moves
// pictures. Everything else works without it.

const every = 2000; // milliseconds between two looks
const patience = 10000; // how long a look may take

// Times. The page says what time it is at the database; from then on this machine counts.

let base = 0;

function setClock(text) {
	base = Date.parse(text) - performance.now();
}

function span(ms) {
	const s = Math.floor(Math.abs(ms) / 1000);
	const m = Math.floor(s / 60), h = Math.floor(m / 60);
	const two = (n) => String(n).padStart(2, "0");
	if (s < 60) return s + "s";
	if (m < 10) return m + "m" + two(s % 60) + "s";
	if (h < 1) return m + "m";
	if (h < 24) return h + "h" + two(m % 60) + "m";
	const days = Math.floor(h / 24), years = Math.floor(days / 365);
	if (years < 2) return days + "d";
	return years < 100 ? years + "y" : ">100y";
}

function countOn() {
	const now = base + performance.now();
	for (const time of document.querySelectorAll("time[data-form]")) {
		const ahead = Date.parse(time.dateTime) - now;
		let text = span(ahead);
		if (time.dataset.form === "ago") text = times === "ago" ? (ahead > 0 ? "in " + text : text + " ago") : clock(time.dateTime);
		if (time.dataset.form === "clock") text = clock(time.dateTime).slice(11, 16) + (times === "local" ? "" : " UTC");
		if (time.textContent !== text) time.textContent = text;
	}
	const shown = document.getElementById("now");
	if (shown.textContent !== clock(now)) shown.textContent = clock(now);
}

// clock is a time in UTC, or where the viewer is, if he wants that.
function clock(at) {
	if (times === "local") return new Date(at).toLocaleString("sv"); // as 2026-11-29 14:03:51
	return new Date(at).toISOString().slice(0, 19).replace("T", " ") + " UTC";
}

// Times are shown as the viewer chooses: how long ago, in local time, or in UTC.

const timesNamed = { ago: "Times: ago", local: "Times: local", utc: "Times: UTC" };
let times = readTimes();

function readTimes() {
	const chosen = recall("stint-times");
	return chosen in timesNamed ? chosen : "ago";
}

function switchTimes() {
	const all = Object.keys(timesNamed);
	times = all[(all.indexOf(times) + 1) % all.length];
	keep("stint-times", times);
	showTimes();
	countOn();
}

function showTimes() {
	const button = document.querySelector("[data-times]");
	button.hidden = false;
	button.textContent = timesNamed[times];
}

// keep and recall do it for all pages. Browsers may keep nothing of a page.

function keep(name, value) {
	try {
		localStorage.setItem(name, value);
	} catch {
		// Then it is for this page alone.
	}
}

function recall(name) {
	try {
		return localStorage.getItem(name);
	} catch {
		return null;
	}
}

// Liveness. The page is asked for again, and what differs is changed in place, so that focus, what
// is selected, typed or opened, and where one has scrolled to stay as they are.

const live = document.getElementById("live");
let tag = "", paused = false, timer = 0, asking = null, answered = performance.now();
let keys = recall("stint-keys") !== "off";

function keyOf(node) {
	return node.nodeType === 1 ? node.dataset?.key ?? node.id ?? "" : "";
}

function isAlike(a, b) {
	return a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);
}

function patch(old, next) {
	if (old.isEqualNode(next)) return;
	if (old.nodeType !== 1) {
		if (old.nodeValue !== next.nodeValue) old.nodeValue = next.nodeValue;
		return;
	}
	patchAttributes(old, next);
	// Somebody may be typing; and the script has drawn the large picture itself.
	if (old.matches("input, select, textarea, datalist, .large")) return;
	const keyed = new Map();
	for (const child of old.children) {
		if (keyOf(child)) keyed.set(keyOf(child), child);
	}
	const stays = new Set([...next.children].map(keyOf));
	let at = old.firstChild;
	for (const child of [...next.childNodes]) {
		while (at && keyOf(at) && !stays.has(keyOf(at))) at = drop(at); // or others would move
		const known = keyOf(child) && keyed.get(keyOf(child));
		if (known && known !== at && known.nodeName === child.nodeName) {
			old.insertBefore(known, at);
			patch(known, child);
		} else if (at && isAlike(at, child)) {
			patch(at, child);
			at = at.nextSibling;
		} else {
			old.insertBefore(child, at);
		}
	}
	while (at) at = drop(at);
}

function drop(node) {
	const after = node.nextSibling;
	node.remove();
	return after;
}

// Attributes that the script or the browser set are left alone.
function patchAttributes(old, next) {
	const own = ["open", "hidden", "tabindex", "data-took", "data-sent", "aria-disabled"];
	if (old.id === "network") own.push("width", "height");
	if (old.classList.contains("canvas")) own.push("class");
	if (old.classList.contains("map")) own.push("class", "width", "height");
	for (const { name, value } of next.attributes) {
		if (!own.includes(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
	}
	for (const { name } of [...old.attributes]) {
		if (!own.includes(name) && name !== "style" && !next.hasAttribute(name)) old.removeAttribute(name);
	}
}

// Rows that are chosen from, by boxes or buttons, stay where they are: none goes or comes under the
// mouse. What is new is announced, and comes when it is asked for.

let wanted = false; // somebody has asked for what is new

// hold gives what is next the rows of this page, as they are now.
function hold(next) {
	const here = document.querySelector("tbody[data-hold]");
	const show = document.querySelector("[data-news] button");
	if (!here) return;
	if (wanted) {
		wanted = false;
		show.hidden = true;
		return;
	}
	let there = next.querySelector("tbody[data-hold]");
	const fresh = new Map([...there?.rows ?? []].map((row) => [row.dataset.key, row]));
	if (!there) { // nothing is left of the list
		next.replaceChildren(...[...document.getElementById("main").childNodes].map((n) => n.cloneNode(true)));
		there = next.querySelector("tbody[data-hold]");
	}
	let gone = 0;
	const rows = [...here.rows].map((row) => {
		const found = fresh.get(row.dataset.key);
		fresh.delete(row.dataset.key);
		if (found) return found;
		gone++;
		const left = row.cloneNode(true);
		left.classList.add("gone");
		return left;
	});
	there.replaceChildren("\n", ...rows.flatMap((row) => [row, "\n"])); // as it was: nothing moves
	const said = [];
	if (fresh.size) said.push(fresh.size + " new");
	if (gone) said.push(gone + " no longer in the list");
	next.querySelector("[data-news] span").textContent = said.join(", ");
	show.hidden = !said.length;
}

async function look() {
	clearTimeout(timer);
	if (asking || paused || document.hidden || !("live" in live.dataset)) return;
	asking = new AbortController();
	const limit = setTimeout(() => asking.abort(), patience);
	try {
		const answer = await fetch(location.href, {
			headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store", signal: asking.signal,
		});
		const now = answer.headers.get("Stint-Now"); // others may answer in the place of the store
		if (answer.status === 401 || answer.status === 403) { // what is here may be no longer seen
			const gone = document.createElement("p");
			gone.className = "missing";
			gone.textContent = "You may not see this any more.";
			document.getElementById("main").replaceChildren(gone);
			answered = performance.now();
			tag = "";
		} else if (answer.status < 500 && now) answered = performance.now();
		if (answer.status < 500 && ![304, 401, 403].includes(answer.status) && now) {
			const next = new DOMParser().parseFromString(await answer.text(), "text/html");
			tag = answer.headers.get("ETag") ?? "";
			setClock(now);
			hold(next.getElementById("main"));
			patch(document.getElementById("main"), next.getElementById("main"));
			prepare();
			countOn();
		}
	} catch {
		// The line at the foot of the page says since when there is no answer.
	}
	clearTimeout(limit);
	asking = null;
	timer = setTimeout(look, every);
}

function sayLive() {
	if (!("live" in live.dataset)) return;
	const silent = performance.now() - answered;
	const stale = !paused && silent > every + patience / 2;
	live.classList.toggle("stale", stale);
	let text = paused ? "Paused." : "Live.";
	if (keys) text += paused ? " Press . to go on." : " Press . to pause.";
	if (stale) text = "No answer since " + clock(base + answered) + ": this is how it was then.";
	if (live.textContent !== text) live.textContent = text;
}

function pause() {
	paused = !paused;
	showKeys();
	look();
}

// Keys of one letter. Whoever speaks to his browser, or hits keys by chance, can switch them off.

function showKeys() {
	const pauses = document.querySelector("[data-pause]");
	if (pauses) {
		pauses.hidden = false;
		pauses.textContent = paused ? "Go on" : "Pause";
	}
	const switches = document.querySelector("[data-keys]");
	switches.hidden = false;
	switches.textContent = keys ? "Switch keys off" : "Switch keys on";
	sayLive();
}

function switchKeys() {
	keys = !keys;
	keep("stint-keys", keys ? "on" : "off");
	showKeys();
}

// Copying. Without a secure connection browsers have no clipboard, so the text is selected.

async function copy(from, text) {
	try {
		await navigator.clipboard.writeText(text);
		return true;
	} catch {
		getSelection().selectAllChildren(from);
		return false;
	}
}

// Pictures.

const readable = 0.6; // how small a picture may be that is made to fit
let zoom = 1;
let large = null; // the picture of a network with very many tasks
let map = null; // that of another one

// showLarge draws it, or draws it again.
async function showLarge() {
	const place = document.querySelector(".large");
	if (!place) return;
	if (large?.layout === place.dataset.layout) {
		large.draw();
		return;
	}
	const { show } = await import(place.dataset.script);
	large = await show(place);
}

// showMap draws the map of a picture that the page has.
async function showMap() {
	const picture = document.getElementById("network");
	if (!picture) return;
	const canvas = picture.parentElement;
	if (map?.of !== picture) {
		const { PictureMap } = await import(canvas.dataset.map);
		map = new PictureMap(canvas.parentElement.querySelector(".map"), {
			all: () => picture.viewBox.baseVal,
			part: () => ({
				x: canvas.scrollLeft / zoom, y: canvas.scrollTop / zoom,
				width: canvas.clientWidth / zoom, height: canvas.clientHeight / zoom,
			}),
			boxes: () => Object.groupBy([...picture.querySelectorAll(".box")].map((box) => {
				const { x, y, width, height } = box.querySelector(".face").getBBox();
				return { x, y, width, height, state: box.classList[1] };
			}), (box) => box.state),
			show: (x, y) => canvas.scrollTo(x * zoom - canvas.clientWidth / 2, y * zoom - canvas.clientHeight / 2),
		});
		map.of = picture;
		canvas.addEventListener("scroll", () => map.draw(map.key), { passive: true });
	}
	map.draw(performance.now()); // the states may be others
}

function scaleBy(by) {
	if (large) large.scale(by);
	else if (document.getElementById("network")) scale(zoom * by);
}

function scale(to) {
	const picture = document.getElementById("network");
	const canvas = picture.parentElement;
	const { width, height } = picture.viewBox.baseVal;
	const middle = (canvas.scrollLeft + canvas.clientWidth / 2) / zoom;
	const centre = (canvas.scrollTop + canvas.clientHeight / 2) / zoom;
	zoom = Math.min(Math.max(to, 0.05), 3);
	picture.setAttribute("width", width * zoom);
	picture.setAttribute("height", height * zoom);
	canvas.scrollLeft = middle * zoom - canvas.clientWidth / 2;
	canvas.scrollTop = centre * zoom - canvas.clientHeight / 2;
	map?.draw(map.key);
}

function fit() {
	if (large) {
		large.fit();
		return;
	}
	const { width, height } = document.getElementById("network").viewBox.baseVal;
	const canvas = document.querySelector(".canvas");
	scale(Math.min(1, (canvas.clientWidth - 2) / width, window.innerHeight * 0.7 / height));
}

function drag(canvas) {
	let from = null;
	canvas.classList.add("grab");
	canvas.addEventListener("pointerdown", (event) => {
		if (event.button !== 0 || event.pointerType === "touch") return; // touch scrolls by itself
		from = { x: event.clientX + canvas.scrollLeft, y: event.clientY + canvas.scrollTop, moved: false };
	});
	canvas.addEventListener("pointermove", (event) => {
		if (!from) return;
		const left = from.x - event.clientX, top = from.y - event.clientY;
		if (!from.moved && Math.hypot(left - canvas.scrollLeft, top - canvas.scrollTop) < 4) return;
		if (!from.moved) canvas.setPointerCapture(event.pointerId);
		from.moved = true;
		canvas.classList.add("grabbing");
		canvas.scrollTo(left, top);
	});
	const end = () => {
		canvas.classList.remove("grabbing");
		if (from?.moved) canvas.addEventListener("click", (event) => event.preventDefault(), { once: true, capture: true });
		from = null;
	};
	canvas.addEventListener("pointerup", end);
	canvas.addEventListener("pointercancel", end);
	canvas.addEventListener("dragstart", (event) => event.preventDefault());
	canvas.addEventListener("wheel", (event) => {
		if (!event.ctrlKey) return; // otherwise the page scrolls
		event.preventDefault();
		scale(zoom * Math.exp(-event.deltaY / 300));
	}, { passive: false });
}

// prepare shows what works only with the script, also in what has come since.
function prepare() {
	for (const button of document.querySelectorAll("[data-copy], [data-copy-from], [data-pick-all], [data-rest], .zoom")) button.hidden = false;
	showLarge().catch(() => {}); // the next look tries again
	showMap().catch(() => {});
	const canvas = document.querySelector(".canvas:not(.grab, .large)");
	if (!canvas) return;
	drag(canvas);
	const share = (canvas.clientWidth - 2) / document.getElementById("network").viewBox.baseVal.width;
	if (share < 1 && share >= readable) scale(share);
	const asked = canvas.querySelector(".asked");
	if (!asked) return;
	const box = asked.getBoundingClientRect(), around = canvas.getBoundingClientRect();
	canvas.scrollLeft = box.left - around.left - (canvas.clientWidth - box.width) / 2;
	canvas.scrollTop = box.top - around.top - (canvas.clientHeight - box.height) / 2;
}

// Events.

document.addEventListener("click", async (event) => {
	const button = event.target.closest("button");
	if (!button) return;
	const { copyFrom, zoom: how } = button.dataset;
	if (how === "in") scaleBy(1.25);
	if (how === "out") scaleBy(0.8);
	if (how === "fit") fit();
	if ("pause" in button.dataset) pause();
	if ("keys" in button.dataset) switchKeys();
	if ("times" in button.dataset) switchTimes();
	if ("show" in button.dataset) {
		wanted = true;
		tag = "";
		if (paused) pause();
		else look();
	}
	if ("copy" in button.dataset || copyFrom) {
		const from = copyFrom ? document.getElementById(copyFrom) : button.parentElement.querySelector("code");
		button.textContent = await copy(from, button.dataset.text ?? from.textContent) ? "Copied" : "Selected";
		setTimeout(() => { button.textContent = "Copy"; }, 1500);
	}
});

// Selecting. All of a page by one box, and those between two by Shift, as in lists elsewhere.

let picked = null; // the box that was clicked last

document.addEventListener("click", (event) => {
	const boxes = [...document.querySelectorAll("td.pick input")];
	if (event.target.matches?.("[data-pick-all]")) {
		for (const box of boxes) box.checked = event.target.checked;
	}
	const to = boxes.indexOf(event.target);
	if (to < 0) return;
	const from = boxes.indexOf(picked);
	if (event.shiftKey && from >= 0) {
		for (const box of boxes.slice(Math.min(from, to), Math.max(from, to))) box.checked = event.target.checked;
	}
	picked = event.target;
});

// A second click sends nothing: the answer to the first is on its way.

document.addEventListener("submit", (event) => {
	if (event.target.method !== "post") return;
	if (event.target.dataset.sent) event.preventDefault();
	event.target.dataset.sent = "true";
	if (event.target.querySelector("[data-rest] input")?.checked && !event.defaultPrevented) {
		event.preventDefault();
		changeAll(event.target);
		return;
	}
	event.submitter?.setAttribute("aria-disabled", "true");
	setTimeout(letSend, patience); // there may have been no answer
});

function letSend() {
	for (const form of document.querySelectorAll("[data-sent]")) {
		delete form.dataset.sent;
		form.querySelector("[aria-disabled]")?.removeAttribute("aria-disabled");
	}
}

addEventListener("pageshow", letSend); // also when somebody has come back to it

// Changes of more tasks than one form takes: the script sends form after form, as somebody would who
// goes on each time, until nothing is left or somebody stops it.

async function changeAll(form) {
	const progress = form.querySelector("[data-progress]"), stop = form.querySelector("[data-stop]");
	const reason = form.elements.namedItem("reason")?.value;
	let changed = 0, stopped = false, isDone = false;
	let page = document, told = null, asked = "";
	stop.onclick = () => { stopped = true; };
	form.querySelector("[data-rest]").hidden = true;
	form.querySelector("button:not([type])").hidden = true;
	stop.hidden = progress.hidden = false;
	progress.textContent = "The first piece is under way.";
	try {
		while (!isDone) {
			const agree = page.querySelector("form.agree"), rest = page.querySelector("form.rest");
			if (agree) {
				told = await post(agree, reason);
				const piece = Number(told.querySelector("[data-changed]")?.dataset.changed);
				if (!piece) break; // the page says why
				changed += piece;
				progress.textContent = changed.toLocaleString("en") + " tasks so far.";
			}
			if (rest && !agree && asked === fieldsOf(rest)) { // it would ask so for ever
				told = page;
				break;
			}
			if (rest && !stopped) {
				asked = fieldsOf(rest);
				page = await post(rest);
			}
			isDone = !rest || stopped || !page.querySelector("form.agree, form.rest");
		}
	} catch (problem) {
		if (!problem.page) {
			stop.hidden = true;
			progress.textContent += " Now there is no answer: look at the list before you go on.";
			return;
		}
		told = problem.page;
	}
	document.getElementById("main").replaceChildren(...told.getElementById("main").childNodes);
	const number = changed.toLocaleString("en") + " tasks";
	const total = document.createElement("p");
	total.className = "said";
	total.textContent = isDone ? "In all pieces together: " + number + "." :
		"In the pieces before this one, " + number + " were changed.";
	if (isDone || changed) document.querySelector("main h1")?.after(total);
	prepare();
}

function fieldsOf(form) {
	return new URLSearchParams(new FormData(form)).toString();
}

// post sends a form, with a reason if it asks for one. Of an answer that is none of the pages that
// the form leads to it throws what it says.
async function post(form, reason) {
	const fields = new FormData(form);
	if (reason !== undefined && fields.has("reason")) fields.set("reason", reason);
	const answer = await fetch(form.getAttribute("action"), {
		method: "POST", body: new URLSearchParams(fields), redirect: "follow",
	});
	const page = new DOMParser().parseFromString(await answer.text(), "text/html");
	const isPage = Boolean(page.getElementById("main"));
	if (answer.ok && isPage) return page;
	const problem = new Error("the answer is " + answer.status);
	problem.page = isPage ? page : saying(answer.status, page.body.textContent);
	throw problem;
}

// saying is a page with what others have answered in the place of the store.
function saying(status, text) {
	const page = document.implementation.createHTMLDocument();
	const [main, heading, said] = ["main", "h1", "p"].map((name) => page.createElement(name));
	main.id = "main";
	heading.textContent = "No answer of these pages";
	said.textContent = "The answer has the status " + status + ": " + text.trim().slice(0, 1000);
	main.append(heading, said);
	page.body.append(main);
	return page;
}

document.addEventListener("keydown", (event) => {
	if (!keys || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=checkbox]), select, textarea")) return;
	const links = [...document.querySelectorAll("tbody td.id a")];
	const at = links.indexOf(document.activeElement);
	switch (event.key) {
	case "/":
		document.querySelector(".find input").focus();
		break;
	case ".":
		pause();
		break;
	case "j":
		links[Math.min(at + 1, links.length - 1)]?.focus();
		break;
	case "k":
		links[Math.max(at - 1, 0)]?.focus();
		break;
	case "x":
		document.activeElement.closest("tr")?.querySelector("td.pick input")?.click();
		break;
	case "+": case "=": case "-":
		scaleBy(event.key === "-" ? 0.8 : 1.25);
		break;
	default:
		return;
	}
	event.preventDefault();
});

document.addEventListener("visibilitychange", () => {
	if (document.hidden) {
		clearTimeout(timer);
		asking?.abort();
		return;
	}
	answered = performance.now();
	look();
});

setClock(document.getElementById("now").dateTime);
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
prepare();
countOn();
showKeys();
showTimes();
setInterval(() => {
	if (document.hidden) return;
	countOn();
	sayLive();
}, 1000);
timer = setTimeout(look, every);
